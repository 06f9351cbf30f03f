// Applies the stored light or dark choice before the first paint, so that nothing flashes. A classic script on purpose.
(() => {
  try {
    const theme = localStorage.getItem("hearth-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage can be switched off; the system's choice is then used.
  }
})();
