/**
 * A file of the person's as the image that is sent: no longer than 2048 pixels, upright, and without what cameras note
 * of place and time. Knows no page.
 */

const LONGEST_EDGE = 2048;
const LARGEST_PNG_BYTES = 2 * 1024 * 1024; // above, its picture is a photo's rather than a drawing's
const QUALITY = 0.9;

/** @param {File} file @returns {boolean} */
export const isImage = (file) => file.type.startsWith("image/");

/** @param {File} file @returns {Promise<Blob>} raises Error with a sentence for the person */
export async function prepared(file) {
  const canvas = drawn(await decoded(file));
  if (file.type !== "image/jpeg") {
    const png = await encoded(canvas, "image/png");
    if (png.size <= LARGEST_PNG_BYTES) return png;
  }
  return encoded(onWhite(canvas), "image/jpeg");
}

/** @param {File} file @returns {Promise<ImageBitmap>} turned as its camera was held */
async function decoded(file) {
  try {
    return await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Error(`“${file.name}” cannot be read as an image.`);
  }
}

/** @param {ImageBitmap} bitmap */
function drawn(bitmap) {
  const scale = Math.min(1, LONGEST_EDGE / Math.max(bitmap.width, bitmap.height));
  const canvas = sized(Math.max(1, Math.round(bitmap.width * scale)), Math.max(1, Math.round(bitmap.height * scale)));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas;
}

/** JPEG has no transparency: what shows through would be black. @param {HTMLCanvasElement} canvas */
function onWhite(canvas) {
  const opaque = sized(canvas.width, canvas.height);
  const context = opaque.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(canvas, 0, 0);
  return opaque;
}

/** @param {number} width @param {number} height */
const sized = (width, height) => Object.assign(document.createElement("canvas"), { width, height });

/** @param {HTMLCanvasElement} canvas @param {string} type @returns {Promise<Blob>} */
async function encoded(canvas, type) {
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, type, QUALITY));
  if (!blob) throw new Error("This image is too large for the browser.");
  return blob;
}
