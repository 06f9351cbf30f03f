/**
 * The conversation on the page: its messages, which branch is shown, and the answers being made. Asks the server and
 * the socket; paints through the thread. Knows no sidebar and no composer.
 *
 * Invariants:
 * - an answer that is being made is followed from its first event, whoever started it and wherever;
 * - what arrives from a refetch never replaces an answer that is followed;
 * - one that was left follows nothing, whatever answers of the server still come: its events would be nobody's.
 */

import { api } from "./api.js";
import { LiveAnswer } from "./live_answer.js";
import { isUndecided } from "./tool_calls_view.js";
import { MessageTree } from "./tree.js";

const OPEN_STATES = new Set(["queued", "running"]);
const LOST_DELAY_MS = 1500;
const AGAIN_MS = [500, 2000]; // pauses before a message is sent again that got no answer
const DRAFT_USER = "draft-user";
const DRAFT_ANSWER = "draft-answer";

/** @typedef {import("./api.js").Message} Message */

export class OpenConversation {
  /** @type {string | null} null: a new one, not yet known to the server */
  id = null;
  /** @type {import("./api.js").Conversation | null} */
  details = null;
  tree = new MessageTree();
  /** @type {string | null} */
  leaf = null;
  /** Changed elsewhere since the last fetch. */
  isStale = false;
  /** @type {Map<string, LiveAnswer>} message id -> the answer as painted */
  #answers = new Map();
  /** @type {Map<string, string>} generation -> message id, of what is followed */
  #followed = new Map();
  /** How often something done here has reached the server. */
  #changes = 0;
  #isSending = false;
  #isStopWanted = false;
  #isLeft = false;

  /**
   * @param {string | null} id
   * @param {{socket: import("./socket.js").ChatSocket, onChange: () => void, onProgress: (message: Message,
   *   answer: LiveAnswer, event: any) => void}} surroundings onChange: show everything again; onProgress: one answer moved
   */
  constructor(id, { socket, onChange, onProgress }) {
    this.id = id;
    this.socket = socket;
    this.onChange = onChange;
    this.onProgress = onProgress;
  }

  get path() {
    return this.tree.pathTo(this.leaf);
  }

  /** The answer being made on the branch shown. @returns {Message | undefined} */
  get runningAnswer() {
    return this.path.find((message) => message.role === "assistant" && !this.answerOf(message).isEnded);
  }

  /** Calls of tools at the end of the branch shown that are not decided, or still run. @returns {Message | undefined} */
  get openCalls() {
    const last = this.path.at(-1);
    return last && isUndecided(last) ? last : undefined;
  }

  get isSending() {
    return this.#isSending;
  }

  get isBusy() {
    return this.#isSending || this.runningAnswer !== undefined || this.openCalls !== undefined;
  }

  /** @param {Message} message @returns {LiveAnswer} */
  answerOf(message) {
    let answer = this.#answers.get(message.id);
    if (!answer) {
      answer = LiveAnswer.fromMessage(message);
      this.#answers.set(message.id, answer);
    }
    return answer;
  }

  /** Asks the server for the whole conversation and follows what is being made. */
  async fetch() {
    if (!this.id || this.#isSending) return;
    const changes = this.#changes;
    const { conversation, messages } = await api.conversation(this.id);
    if (this.#isSending) return; // what is sent right now brings newer rows
    if (changes !== this.#changes) {
      await this.fetch(); // the answer is older than what was done here
      return;
    }
    const isElsewhere = this.details !== null && this.leaf !== this.details.active_leaf;
    this.details = conversation;
    this.#take(messages);
    if (!isElsewhere || !this.tree.get(this.leaf)) this.leaf = conversation.active_leaf ?? this.tree.newestLeaf();
    this.onChange();
  }

  /** Stops following, for good; the answers go on being made. */
  leave() {
    this.#isLeft = true;
    for (const generation of this.#followed.keys()) this.socket.unfollow(generation);
    this.#followed.clear();
  }

  /**
   * @param {{id: string, conversation: string | null, parent: string | null, content: string, images: string[],
   *   model?: string, options: object, system_prompt?: string}} message
   * @returns {Promise<void>} raises ApiError, and then the draft is gone again
   */
  async send(message) {
    const { leaf } = this;
    this.#showDraft(message);
    await this.#perform(
      () => postMessage(message),
      ({ conversation, user_message, answer }) => {
        this.id = conversation.id;
        this.details = { ...conversation, active_leaf: answer.id };
        this.isStale = false;
        this.#takeStarted([user_message, answer]);
      },
      leaf,
    );
  }

  /** @param {Message} answer @param {{model?: string, options: object}} choice */
  async regenerate(answer, choice) {
    await this.#perform(
      () => api.regenerate(answer.id, choice),
      (made) => this.#takeStarted([made.answer]),
      this.leaf,
    );
  }

  /** @param {import("./api.js").ToolCall} call @param {string} decision */
  async decide(call, decision) {
    await this.#afterChange(api.decide(call.id, decision));
  }

  /** The answer after calls, where none has come by itself. @param {Message} calls */
  async goOn(calls) {
    await this.#perform(
      () => api.goOn(calls.id),
      (made) => this.#takeStarted([made.answer]),
      this.leaf,
    );
  }

  /** Also before the server has answered: then as soon as it has. */
  async stop() {
    const generation = this.runningAnswer?.generation?.id;
    if (generation) await api.cancel(generation);
    else if (this.openCalls) await this.#afterChange(api.stopCalls(this.openCalls.id));
    else this.#isStopWanted = this.#isSending;
  }

  /** @param {string} id of one version; the branch below it comes with it */
  async showVersion(id) {
    const leaf = this.tree.newestLeafUnder(id);
    this.leaf = leaf;
    this.onChange();
    if (!this.id) return;
    await api.changeConversation(this.id, { active_leaf: leaf });
    this.#changes += 1;
    if (this.details) this.details.active_leaf = leaf;
  }

  /** @param {string} generation @param {any} event */
  onEvent(generation, event) {
    const id = this.#followed.get(generation);
    const message = id && this.tree.get(id);
    if (!message) return;
    const answer = this.answerOf(message);
    answer.apply(event);
    if (answer.isEnded) {
      this.#followed.delete(generation);
      this.socket.unfollow(generation);
    }
    this.onProgress(message, answer, event);
  }

  /** Shows what there is then, also where it was refused. @param {Promise<any>} request */
  async #afterChange(request) {
    try {
      await request;
    } finally {
      await this.fetch();
    }
  }

  /** The stream is gone: either the answer has ended long ago, or it will be made again. @param {string} generation */
  async onLost(generation) {
    const id = this.#followed.get(generation);
    if (!id) return;
    await new Promise((resolve) => setTimeout(resolve, LOST_DELAY_MS));
    if (this.#followed.get(generation) !== id) return;
    this.#followed.delete(generation);
    this.#answers.delete(id);
    try {
      await this.fetch();
    } catch {
      this.#followed.set(generation, id);
      await this.onLost(generation);
    }
  }

  /**
   * @template T
   * @param {() => Promise<T>} ask
   * @param {(answer: T) => void} take
   * @param {string | null} leaf to go back to when refused
   */
  async #perform(ask, take, leaf) {
    this.#isSending = true;
    this.#isStopWanted = false;
    this.onChange();
    try {
      take(await ask());
    } catch (error) {
      this.leaf = leaf;
      throw error;
    } finally {
      this.#isSending = false;
      this.#changes += 1;
      this.tree.remove(DRAFT_USER);
      this.tree.remove(DRAFT_ANSWER);
      this.#answers.delete(DRAFT_ANSWER);
      this.onChange();
    }
    if (this.#isStopWanted) await this.stop();
  }

  /** What was sent is seen at once. @param {{parent: string | null, content: string, images: string[]}} message */
  #showDraft({ parent, content, images }) {
    const rest = { reasoning: "", images: [], tool_calls: [], calls: [], created_at: new Date().toISOString(), model: null, generation: null };
    const generation = { id: "", state: "queued", finish_reason: null, error: null, usage: null, timings: null };
    this.tree.upsert([
      { ...rest, id: DRAFT_USER, parent, role: "user", content, images },
      { ...rest, id: DRAFT_ANSWER, parent: DRAFT_USER, role: "assistant", content: "", generation },
    ]);
    this.leaf = DRAFT_ANSWER;
  }

  /** @param {Message[]} messages the last one is an answer that begins now, for us to watch */
  #takeStarted(messages) {
    const answer = messages.at(-1);
    this.#answers.set(answer.id, new LiveAnswer({ isWatchedFromStart: true }));
    this.#take(messages);
    this.leaf = answer.id;
    if (this.details) this.details.active_leaf = answer.id;
  }

  /** @param {Message[]} messages */
  #take(messages) {
    this.tree.upsert(messages);
    for (const message of messages) {
      const { generation } = message;
      if (generation && OPEN_STATES.has(generation.state)) this.#follow(message, generation.id);
      else if (generation && !this.#isPainted(message)) this.#answers.delete(message.id);
    }
  }

  /** An answer that was watched to its end knows more than the stored one. @param {Message} message */
  #isPainted(message) {
    const answer = this.#answers.get(message.id);
    return answer?.isEnded && answer.text === message.content;
  }

  /** @param {Message} message @param {string} generation */
  #follow(message, generation) {
    const known = this.#answers.get(message.id);
    if (this.#isLeft || this.#followed.has(generation) || known?.isEnded) return;
    if (!known?.isWatchedFromStart) this.#answers.set(message.id, new LiveAnswer({ isWatchedFromStart: false }));
    this.#followed.set(generation, message.id);
    this.socket.follow(generation);
  }
}

/** Again where the server does not answer for a moment: it knows the message by its id. @param {object} message */
async function postMessage(message) {
  for (const pause of AGAIN_MS) {
    try {
      return await api.postMessage(message);
    } catch (error) {
      if (error.status !== 0) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  return api.postMessage(message);
}
