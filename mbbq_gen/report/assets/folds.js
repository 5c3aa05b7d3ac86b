"use strict";
// A link to a place in a closed section opens the section and those around it.
(() => {
  function follow() {
    let place = null;
    try {
      place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch (error) {
      return; // the address is not valid UTF-8
    }
    if (!place) return;
    for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    place.scrollIntoView();
  }
  window.addEventListener("hashchange", follow);
  follow();
})();
