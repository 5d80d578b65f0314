/** What is known of a list that comes in pages: each page with the cursor that it was asked by. */

export const CHUNK = 200;

interface Chunk<Row> {
  after: string | undefined;
  items: Row[];
  next: string | null;
}

export interface Wanted {
  index: number;
  after: string | undefined;
}

export class Chunks<Row> {
  private readonly chunks: Chunk<Row>[] = [];
  count = 0;

  get loaded(): boolean {
    return this.chunks.length > 0;
  }

  /** Whether the end of the list is there. */
  get complete(): boolean {
    return this.chunks.at(-1)?.next === null;
  }

  /** The pages that rows from `first` to before `end` are on, and the next one where they end beyond what is there. */
  *needed(first: number, end: number): Generator<Wanted> {
    let start = 0;
    for (let index = 0; ; index++) {
      const chunk = this.chunks[index];
      if (!chunk) {
        const before = this.chunks[index - 1];
        if (before?.next === null || (start >= end && index > 0)) return;
        yield { index, after: before?.next ?? undefined };
        if (!this.chunks[index]) return;
      } else if (start < end && start + chunk.items.length >= first) {
        yield { index, after: chunk.after };
      }
      start += this.chunks[index]?.items.length ?? 0;
      if (start >= end) return;
    }
  }

  /** The next page, again and again while rows before `end` have not come; `end` is asked each time. */
  *further(end: () => number): Generator<Wanted> {
    while (this.loaded && !this.complete && this.count < end()) {
      const index = this.chunks.length;
      yield { index, after: this.chunks[index - 1]?.next ?? undefined };
      if (this.chunks.length === index) return;
    }
  }

  /** A page, new or again. Where another one begins after it than before, what came behind is asked for anew. */
  put(index: number, items: Row[], next: string | null): void {
    const before = this.chunks[index];
    const after = before ? before.after : (this.chunks[index - 1]?.next ?? undefined);
    this.chunks[index] = { after, items, next };
    if (before && before.next !== next) this.chunks.length = index + 1;
    this.count = this.chunks.reduce((sum, one) => sum + one.items.length, 0);
  }

  slice(first: number, end: number): Row[] {
    const found: Row[] = [];
    let start = 0;
    for (const { items } of this.chunks) {
      if (start >= end) break;
      if (start + items.length > first) found.push(...items.slice(Math.max(0, first - start), end - start));
      start += items.length;
    }
    return found;
  }
}
