"use strict";
// A link into a fold opens it, and whatever that is folded into.
(() => {
  function follow() {
    let place = null;
    try {
      place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch (error) {
      return; // the address holds what is no text
    }
    if (!place) return;
    for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    place.scrollIntoView();
  }
  window.addEventListener("hashchange", follow);
  follow();
})();
