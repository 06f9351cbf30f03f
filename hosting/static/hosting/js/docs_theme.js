// Tells Swagger UI, which has a class of its own for it, whether it is dark. A classic script: before the first paint.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const theme = root.dataset.theme ?? (system.matches ? "dark" : "light");
    root.classList.toggle("dark-mode", theme === "dark");
  };
  system.addEventListener("change", show);
  show();
})();
