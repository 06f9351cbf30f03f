// Keeps what is typed and sent while the page's modules still load: the composer takes it over. A classic script on purpose.
(() => {
  const form = document.getElementById("composer");
  const field = document.getElementById("message");
  const isLoading = () => "early" in form.dataset;
  const send = () => {
    if (!field.value.trim()) return;
    form.dataset.early = "sent";
    field.readOnly = true;
  };
  form.addEventListener("submit", (event) => {
    if (!isLoading()) return;
    event.preventDefault();
    send();
  });
  field.addEventListener("keydown", (event) => {
    const isComposing = event.isComposing || event.keyCode === 229;
    if (!isLoading() || event.key !== "Enter" || event.shiftKey || isComposing) return;
    event.preventDefault();
    send();
  });
  field.addEventListener("input", () => {
    if (isLoading()) document.getElementById("send-button").disabled = !field.value.trim();
  });
})();
