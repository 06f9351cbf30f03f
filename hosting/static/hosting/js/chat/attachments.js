/**
 * The images that go with the next message: chosen, pasted or dropped, sent to the server at once, shown, removed.
 * Knows no message.
 */

import { api, imageAddress } from "./api.js";
import { byId, element, iconButton } from "./dom.js";
import { isImage, prepared } from "./image_files.js";

export class Attachments {
  /** @type {{id: string | null}[]} id null: on its way to the server */
  #items = [];
  #model = null;
  #isAnyReader = false;
  #hasImagesBefore = false;

  /** @param {{onChange: () => void}} handlers */
  constructor(handlers) {
    this.handlers = handlers;
    this.list = byId("attachments");
    this.note = byId("attach-note");
    this.button = byId("attach-button");
    this.input = byId("attach-input");
    this.most = Number(this.list.dataset.most);
    this.button.addEventListener("click", () => this.#choose());
    this.input.addEventListener("change", () => {
      this.#add([...this.input.files]);
      this.input.value = ""; // so that the same file can be chosen once more
    });
    byId("message").addEventListener("paste", (event) => this.#onPaste(event));
    this.#listenToDrops(byId("conversation"));
  }

  /** Those that the server has. */
  get ids() {
    return this.#items.map((item) => item.id).filter((id) => id !== null);
  }

  clear() {
    this.#items = [];
    this.#say("");
    this.#render();
  }

  /** Before what is attached by now. @param {string[]} ids */
  giveBack(ids) {
    const { ids: known } = this;
    this.#items = [...ids.filter((id) => !known.includes(id)).map((id) => ({ id })), ...this.#items];
    this.#render();
  }

  get areOnTheirWay() {
    return this.#items.some((item) => item.id === null);
  }

  explainWait() {
    if (this.areOnTheirWay) this.#say("An image is still on its way.");
  }

  /** Why a message with these cannot be sent; empty where it can. @param {string[]} ids */
  faultOf(ids) {
    if (!this.#model || this.#model.supports_images) return "";
    const name = this.#model.display_name;
    if (ids.length) return `${name} reads text only. Choose a model with the badge “images”, or remove the images.`;
    return this.#hasImagesBefore
      ? `${name} reads text only, and there are images above. Choose a model with the badge “images”, or begin a new chat.`
      : "";
  }

  /** @param {import("./api.js").Model | null} model @param {import("./api.js").Model[]} models all there are */
  showModel(model, models) {
    this.#model = model;
    this.#isAnyReader = models.some((one) => one.supports_images);
    this.#render();
  }

  /** @param {import("./api.js").Message[]} path the branch that the next message follows */
  showPath(path) {
    this.#hasImagesBefore = path.some((message) => message.images?.length);
    this.#render();
  }

  get #reason() {
    if (this.#model?.supports_images) return "";
    return `${this.#model?.display_name ?? "The model"} reads text only, no images.`;
  }

  #choose() {
    if (this.#reason) this.#say(this.#reason);
    else this.input.click();
  }

  /** @param {ClipboardEvent} event what is text, too, is pasted as text */
  #onPaste(event) {
    const files = [...event.clipboardData.files];
    if (!files.length || event.clipboardData.types.includes("text/plain")) return;
    event.preventDefault();
    this.#add(files);
  }

  /** @param {HTMLElement} area */
  #listenToDrops(area) {
    const composer = byId("composer");
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    area.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      composer.classList.add("is-dropping");
    });
    area.addEventListener("dragleave", (event) => {
      if (!area.contains(event.relatedTarget)) composer.classList.remove("is-dropping");
    });
    area.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      composer.classList.remove("is-dropping");
      this.#add([...event.dataTransfer.files]);
    });
  }

  /** @param {File[]} files */
  #add(files) {
    if (this.#reason) return this.#say(this.#reason);
    const images = files.filter(isImage);
    const room = this.most - this.#items.length;
    const isOther = images.length < files.length;
    this.#say(
      images.length > room ? `A message may have ${this.most} images.` : isOther ? "Only images can be attached." : "",
    );
    return images.slice(0, room).forEach((file) => this.#store(file));
  }

  /** @param {File} file */
  async #store(file) {
    const item = { id: null };
    this.#items.push(item);
    this.#render();
    try {
      const { image } = await api.storeImage(await prepared(file));
      if (!this.#items.includes(item)) return; // removed meanwhile
      if (this.ids.includes(image)) this.#forget(item); // the same picture once more
      else item.id = image;
      if (!this.note.textContent) this.#say("The image is attached.", { isSeen: true });
    } catch (error) {
      this.#forget(item);
      this.#say(error.message);
    }
    this.#render();
  }

  /** @param {{id: string | null}} item */
  #forget(item) {
    this.#items = this.#items.filter((one) => one !== item);
  }

  /** @param {{id: string | null}} item */
  #remove(item) {
    const place = this.#items.indexOf(item);
    this.#forget(item);
    this.#say("");
    this.#render();
    const others = this.list.querySelectorAll("button");
    (others[Math.min(place, others.length - 1)] ?? byId("message")).focus();
  }

  #render() {
    this.button.hidden = !this.#isAnyReader;
    this.button.setAttribute("aria-disabled", String(Boolean(this.#reason)));
    this.button.title = this.#reason || `Attach images, ${this.most} at most`;
    this.list.hidden = !this.#items.length;
    const ids = this.#items.map((item) => item.id ?? "coming").join();
    if (ids !== this.list.dataset.shown) this.list.replaceChildren(...this.#items.map((item, place) => this.#thumbnail(item, place + 1)));
    this.list.dataset.shown = ids;
    this.handlers.onChange();
  }

  /** @param {{id: string | null}} item @param {number} number */
  #thumbnail(item, number) {
    const name = `image ${number}`;
    const picture = item.id
      ? element("img", { src: imageAddress(item.id), alt: `Attached ${name}`, onerror: () => this.#onGone(item) })
      : element("span", { class: "attachment-coming", role: "img", "aria-label": `Attached ${name} is on its way` });
    return element("li", { class: "attachment" }, picture, iconButton(`Remove ${name}`, "x", () => this.#remove(item)));
  }

  /** Of a draft from long ago. @param {{id: string | null}} item */
  #onGone(item) {
    this.#forget(item);
    this.#say("An image that was not sent is gone. Attach it once more.");
    this.#render();
  }

  /** @param {string} sentence @param {{isSeen?: boolean}} [state] isSeen: it is only said to those who do not see it */
  #say(sentence, { isSeen = false } = {}) {
    this.note.textContent = sentence;
    this.note.classList.toggle("visually-hidden", isSeen || !sentence);
  }
}
