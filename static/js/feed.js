// @ts-check
/**
 * The live feed of one run: an EventSource that comes back by itself from the last tick it has seen.
 * Knows nothing of what is drawn.
 */

const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 15000;

export class Feed {
  /** @type {EventSource | null} */
  #source = null;
  #retryMs = FIRST_RETRY_MS;
  #timer = 0;
  #hasEnded = false;
  /** Id of the newest tick that has arrived. */
  lastId = 0;

  /**
   * @param {string} run
   * @param {{ tick: (tick: Tick) => void, snapshot: (snapshot: Snapshot) => void, state: (state: "open" | "lost" | "ended") => void }} on
   */
  constructor(run, on) {
    this.run = run;
    this.on = on;
  }

  /** Connect, unless connected or over. */
  open() {
    if (this.#source || this.#hasEnded) return;
    clearTimeout(this.#timer);
    const source = new EventSource(`/api/v1/runs/${this.run}/events?after=${this.lastId}`);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#retryMs = FIRST_RETRY_MS;
      this.on.state("open");
    });
    source.addEventListener("tick", (event) => this.#tick(JSON.parse(event.data)));
    source.addEventListener("snapshot", (event) => this.on.snapshot(JSON.parse(event.data)));
    source.addEventListener("farewell", (event) => this.#farewell(JSON.parse(event.data).reason));
    source.addEventListener("error", () => this.#lost());
  }

  /** Disconnect; open() goes on from the last tick. */
  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  /** @param {Tick} tick */
  #tick(tick) {
    if (tick.id <= this.lastId) return;
    this.lastId = tick.id;
    this.on.tick(tick);
  }

  /** @param {string} reason */
  #farewell(reason) {
    if (reason !== "ended") return this.#lost();
    this.#hasEnded = true;
    this.close();
    this.on.state("ended");
  }

  #lost() {
    this.close();
    this.on.state("lost");
    this.#timer = setTimeout(() => this.open(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, LONGEST_RETRY_MS);
  }
}
