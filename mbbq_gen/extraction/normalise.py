"""Traditional Chinese characters and the simplified ones that the same word is written with.

Only those that stand in what answers speak of: people, their work and kin, knowing, saying, judging. The table is our
own; a character that is missing is compared as it is.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import regex

_PAIRS = """
愛爱 礙碍 辦办 幫帮 報报 備备 輩辈 筆笔 畢毕 邊边 編编 變变 標标 賓宾 殘残 測测 層层 產产 長长 嘗尝 場场 廠厂 車车 徹彻
塵尘 陳陈 稱称 誠诚 遲迟 衝冲 蟲虫 醜丑 處处 傳传 創创 純纯 詞词 辭辞 從从 聰聪 錯错 達达 帶带 單单 擔担 膽胆 當当 檔档
黨党 導导 燈灯 鄧邓 敵敌 遞递 點点 電电 訂订 東东 動动 鬥斗 獨独 讀读 賭赌 斷断 對对 隊队 頓顿 兒儿 爾尔 發发 罰罚 範范
販贩 飯饭 訪访 飛飞 費费 紛纷 豐丰 瘋疯 馮冯 婦妇 負负 復复 複复 該该 蓋盖 趕赶 崗岗 剛刚 綱纲 個个 給给 鞏巩 貢贡 夠够
構构 購购 顧顾 關关 觀观 館馆 貫贯 廣广 規规 歸归 貴贵 國国 過过 還还 韓韩 號号 賀贺 後后 護护 華华 話话 畫画 劃划 懷怀
壞坏 歡欢 環环 緩缓 換换 喚唤 黃黄 揮挥 輝辉 會会 毀毁 彙汇 匯汇 渾浑 獲获 貨货 禍祸 擊击 機机 積积 極极 級级 計计 記记
際际 繼继 紀纪 績绩 夾夹 價价 駕驾 堅坚 監监 間间 艱艰 簡简 減减 檢检 見见 鑑鉴 薦荐 將将 獎奖 講讲 醬酱 膠胶 驕骄 腳脚
較较 階阶 節节 結结 潔洁 屆届 緊紧 僅仅 進进 盡尽 勁劲 經经 驚惊 競竞 淨净 糾纠 舊旧 舉举 劇剧 據据 懼惧 絕绝 覺觉 決决
軍军 開开 殼壳 課课 墾垦 褲裤 塊块 寬宽 礦矿 虧亏 來来 賴赖 蘭兰 籃篮 懶懒 爛烂 勞劳 樂乐 類类 離离 禮礼 裡里 裏里 歷历
曆历 麗丽 勵励 倆俩 聯联 連连 臉脸 練练 戀恋 糧粮 兩两 輛辆 療疗 遼辽 鄰邻 臨临 齡龄 靈灵 領领 劉刘 樓楼 盧卢 魯鲁 錄录
陸陆 亂乱 論论 羅罗 邏逻 馬马 媽妈 嗎吗 買买 賣卖 滿满 貓猫 沒没 們们 夢梦 彌弥 覓觅 麵面 滅灭 憫悯 鳴鸣 謀谋 納纳 難难
惱恼 腦脑 鬧闹 內内 擬拟 農农 濃浓 諾诺 歐欧 盤盘 龐庞 賠赔 貧贫 憑凭 蘋苹 評评 撲扑 鋪铺 樸朴 齊齐 騎骑 豈岂 啟启 氣气
遷迁 簽签 謙谦 錢钱 淺浅 牆墙 搶抢 強强 橋桥 喬乔 竊窃 親亲 輕轻 傾倾 請请 慶庆 窮穷 區区 軀躯 驅驱 權权 勸劝 卻却 確确
讓让 擾扰 熱热 認认 榮荣 軟软 銳锐 潤润 賽赛 傘伞 喪丧 掃扫 殺杀 傷伤 賞赏 燒烧 紹绍 設设 紳绅 審审 嬸婶 聲声 聖圣 師师
詩诗 時时 識识 實实 適适 釋释 飾饰 視视 試试 勢势 壽寿 獸兽 書书 樹树 數数 帥帅 雙双 誰谁 順顺 說说 説说 碩硕 絲丝 訴诉
肅肃 雖虽 隨随 歲岁 孫孙 損损 鎖锁 態态 攤摊 談谈 湯汤 討讨 騰腾 題题 體体 條条 貼贴 鐵铁 廳厅 聽听 頭头 圖图 團团 託托
彎弯 萬万 網网 違违 圍围 為为 爲为 偉伟 偽伪 衛卫 溫温 聞闻 穩稳 問问 無无 務务 誤误 習习 係系 繫系 細细 戲戏 嚇吓 鮮鲜
閒闲 賢贤 顯显 險险 現现 線线 獻献 鄉乡 詳详 響响 項项 嘯啸 蕭萧 寫写 瀉泻 謝谢 興兴 須须 許许 緒绪 續续 選选 學学 尋寻
訊讯 詢询 訓训 遜逊 壓压 鴨鸭 亞亚 煙烟 嚴严 鹽盐 顏颜 驗验 陽阳 養养 樣样 謠谣 藥药 爺爷 業业 葉叶 醫医 儀仪 遺遗 蟻蚁
藝艺 議议 異异 義义 憶忆 譯译 陰阴 銀银 飲饮 隱隐 應应 營营 贏赢 穎颖 擁拥 優优 憂忧 郵邮 猶犹 遊游 魚鱼 與与 語语 預预
獄狱 譽誉 淵渊 園园 員员 圓圆 緣缘 遠远 願愿 約约 閱阅 雲云 運运 雜杂 災灾 載载 贊赞 暫暂 髒脏 贓赃 則则 責责 賊贼 澤泽
擇择 贈赠 詐诈 債债 張张 漲涨 帳帐 賬账 趙赵 這这 針针 偵侦 診诊 鎮镇 陣阵 爭争 證证 鄭郑 織织 職职 執执 紙纸 誌志 製制
質质 滯滞 終终 種种 眾众 週周 豬猪 諸诸 著着 築筑 駐驻 專专 轉转 賺赚 莊庄 裝装 壯壮 狀状 準准 資资 總总 縱纵 組组 搗捣
撿捡 摯挚 騙骗 勝胜 輸输 聾聋 啞哑
"""

TO_SIMPLIFIED = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split()})
"""Traditional → simplified character."""


MAX_WORDS = 4096
"""Words that any table of forms keeps at most: far more than the words that come again and again."""

_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\u0640"
_ODD = re.compile(f"[{_INVISIBLE}\U0001f130-\U0001f189\U0001f1e6-\U0001f1ff\u2776-\u2793\u24eb-\u24fe]")
_INVISIBLE_ONLY = regex.compile(f"[{_INVISIBLE}]")
_ACCENTS = "".join(map(chr, range(0x300, 0x370)))
_CLUSTER = regex.compile(r"\X")

_ACCENT_FREE_SCRIPTS = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Arabic}]")
_INDIC = regex.compile(r"[\u0900-\u0dff]")
_ARABIC_FOLDS = str.maketrans({"ة": "ه", "ى": "ي", "ک": "ك", "ی": "ي"})
_LETTER_FOLDS = str.maketrans({"ı": "i", "ё": "е", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe"})

_NUKTA = regex.compile(r"[\u093c\u09bc\u0a3c\u0b3c]")
_NASALS = regex.compile(r"ङ्(?=[क-घ])|ञ्(?=[च-झ])|ण्(?=[ट-ढ])|न्(?=[त-ध])|म्(?=[प-भ])|ँ")
"""Ways to write a nasal in Devanagari: हिन्दी and हिंदी, हाँ and हां are one word."""
_INDIC_FOLDS = str.maketrans({"\u0981": None, "\u0b01": None, "ৰ": "র", "ৎ": "ত"})
"""Candrabindu is often left out; Assamese ৰ is often typed as Bengali র; ৎ is ত in front of an ending (অভিজিতের)."""

LOOK_ALIKES = str.maketrans("АВЕКМНОРСТХаеорсхΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEKMHOPCTXaeopcxABEZHIKMNOPTYX")
"""Cyrillic and Greek letters that look like a Latin one: read as labels where they stand alone."""


@dataclass(frozen=True, slots=True)
class NormalText:
    """A mended text and the way back from it."""

    text: str
    """The mended text, case kept."""
    starts: tuple[int, ...] | None
    """Raw start of every character; None where the text needed no mending."""
    ends: tuple[int, ...] | None
    """Raw end of every character; None likewise."""

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """The raw characters that `text[start:end]` came from."""
        if self.starts is None or self.ends is None:
            return start, end
        if start >= end:
            place = self.starts[start] if start < len(self.starts) else (self.ends[-1] if self.ends else 0)
            return place, place
        return self.starts[start], self.ends[end - 1]


def normalise(text: str) -> NormalText:
    """The text mended, with the map back to the raw text."""
    if text.isascii() or (unicodedata.is_normalized("NFKC", text) and not _ODD.search(text)):
        return NormalText(text, None, None)
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        mended = _mend(cluster.group())
        characters.append(mended)
        starts.extend([cluster.start()] * len(mended))
        ends.extend([cluster.end()] * len(mended))
    return NormalText("".join(characters), tuple(starts), tuple(ends))


@lru_cache(maxsize=4096)
def _mend(cluster: str) -> str:
    """One grapheme cluster in NFKC without invisible characters; emoji letters and digits become plain ones.

    An accent that begins a cluster stands over nothing, such as behind a zero-width space: the letter before has none.
    """
    plain = "".join("#" if sign == "№" else _plain_sign(sign) for sign in _INVISIBLE_ONLY.sub("", cluster))
    return unicodedata.normalize("NFKC", plain.lstrip(_ACCENTS))


def _plain_sign(sign: str) -> str:
    """The letter or digit inside a squared, circled or flag sign; any other sign as it is."""
    code = ord(sign)
    for first, last in ((0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189), (0x1F1E6, 0x1F1FF)):
        if first <= code <= last:
            return chr(ord("A") + code - first)
    if 0x2776 <= code <= 0x2793 or 0x24EB <= code <= 0x24FE:
        value = unicodedata.numeric(sign, None)
        return str(int(value)) if value is not None else sign
    return sign


@lru_cache(maxsize=MAX_WORDS)
def loose_key(word: str) -> str:
    """The form of a word that comparisons use: equal for spellings that differ in case or in droppable accents."""
    folded = unicodedata.normalize("NFKC", word).replace("İ", "i").casefold()
    if folded.isascii():
        return folded
    if _ACCENT_FREE_SCRIPTS.search(folded):
        folded = _drop_marks(folded).translate(_LETTER_FOLDS).translate(_ARABIC_FOLDS)
    if _INDIC.search(folded):
        folded = _NASALS.sub("ं", _NUKTA.sub("", folded)).translate(_INDIC_FOLDS)
    if len(folded) == 1:
        folded = folded.translate(TO_SIMPLIFIED)
    return "".join(_plain_digit(sign) for sign in _INVISIBLE_ONLY.sub("", folded))


def _drop_marks(word: str) -> str:
    """The word without combining marks (й keeps its own: it is a letter of its own)."""
    spared = word.replace("й", "\ue000")
    bare = "".join(
        sign
        for sign in unicodedata.normalize("NFD", spared)
        if unicodedata.category(sign) != "Mn" or _INDIC.match(sign)
    )
    return unicodedata.normalize("NFC", bare).replace("\ue000", "й")


def _plain_digit(sign: str) -> str:
    """A decimal digit of any script as 0–9, anything else as it is."""
    return str(unicodedata.decimal(sign)) if sign.isdecimal() else sign


@lru_cache(maxsize=4096)
def strict_key(word: str, turkish: bool) -> str:
    """The word with its case folded and its accents kept: what a pattern word with `=` is compared by."""
    composed = unicodedata.normalize("NFKC", word)
    if turkish:
        composed = composed.replace("I", "ı").replace("İ", "i")
    return composed.casefold()


TICK, CROSS = "\ua66e", "\ua669"
"""Letters of no living language that stand for a tick and a cross, each a word of its own."""
_UNSPACED_SCRIPTS = "\u3040-\u30ff\u3400-\u9fff"
CJK = "\ua66e\ua669\u3040-\u30ff\u3400-\u9fff"
_COMBINING_MARKS = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"
_LATIN = "[^\\W_\u0370-\u1dff\u1f00-\U0010ffff]"
_OTHER = f"[^\\W_\\x00-\u036f\u1e00-\u1eff{CJK}]"
WORD = re.compile(
    rf"([{CJK}]|{_LATIN}+(?:[\u0300-\u036f\u200c\u200d]+{_LATIN}*)*|{_OTHER}+(?:[{_COMBINING_MARKS}]+{_OTHER}*)*)"
)
"""A word: letters and digits of one script, Latin or another, with the marks that belong to it in Indic and Arabic
scripts; a Han or Kana character. A label and the ending behind it are two words: Korean "B\uac00"."""
ASCII_WORD = re.compile("([A-Za-z0-9]+)")
"""The same in a text without any other letters."""
UNSPACED = re.compile(rf"[{_UNSPACED_SCRIPTS}]")
"""A character of a script without blanks between words: each is a word of its own."""
HIRAGANA = re.compile("[\u3040-\u309f]")
"""A character of the script that Japanese writes its endings and particles in."""
