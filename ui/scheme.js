/* Streamlit gives its colour scheme to its root alone. Popovers, menus and tooltips lie outside of that root, so
   the scheme is handed on to the document, also when the theme is chosen by hand. */
if (!window.headroomScheme) {
  const root = document.querySelector('[data-testid="stApp"]');
  const hand = () => { document.documentElement.style.colorScheme = getComputedStyle(root).colorScheme; };
  window.headroomScheme = new MutationObserver(hand);
  window.headroomScheme.observe(root, {attributes: true, attributeFilter: ["class"]});
  hand();
}
