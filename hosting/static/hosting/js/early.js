// Keeps what is typed and sent while the page's modules still load: the composer takes it over. A classic script on purpose, and
// before the form: nobody can type before it is there.
(() => {
  const field = () => document.getElementById("message");
  const isLoading = (element) => element.form !== null && "early" in element.form.dataset;
  const send = () => {
    if (!field().value.trim()) return;
    field().form.dataset.early = "sent";
    field().readOnly = true;
  };
  document.addEventListener("submit", (event) => {
    if (event.target !== field()?.form || !isLoading(field())) return;
    event.preventDefault();
    send();
  });
  document.addEventListener("keydown", (event) => {
    const isComposing = event.isComposing || event.keyCode === 229;
    if (event.target !== field() || !isLoading(field()) || event.key !== "Enter" || event.shiftKey || isComposing) return;
    event.preventDefault();
    send();
  });
  document.addEventListener("input", (event) => {
    if (event.target !== field() || !isLoading(field())) return;
    document.getElementById("send-button").disabled = !field().value.trim();
  });
})();
