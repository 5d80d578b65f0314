/**
 * Names and payloads are of others, and Unicode has what nobody sees: a client may be called `press<U+200B>-7`, and U+202E
 * turns what stands behind it. Such characters are written out: `press\u200b-7`.
 */

/** Controls, formats (among them those of direction), halves of a pair, ends of lines, and what is drawn as nothing. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const UNSEEN_IN_LINES = new RegExp(`(?![\\t\\r\\n])${UNSEEN.source}`, "gu");

export function legible(text: string): string {
  return text.replace(UNSEEN, writtenOut);
}

/** A text of several lines. It is an object, so that nobody makes it legible once more, and writes out the ends of its lines. */
export function lines(text: string): string {
  return Object(text.replace(UNSEEN_IN_LINES, writtenOut)) as string;
}

function writtenOut(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}
