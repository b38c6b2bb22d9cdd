// What differs between two texts, word by word.

import { el } from "./dom.js";

const MOST_CELLS = 1_000_000;
// Beyond that many comparisons the two are shown whole, one after the other.

/** Stretches `{how, text}` with `how` of "same", "gone" or "new", that lead from one text to another. */
export function differences(before, after) {
  const [old, now] = [words(before), words(after)];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head
    && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const middle = between(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  return joined([
    ...old.slice(0, head).map((text) => ({ how: "same", text })),
    ...middle,
    ...old.slice(old.length - tail).map((text) => ({ how: "same", text })),
  ]);
}

function words(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/** By the longest common subsequence (Wagner and Fischer, 1974). */
function between(old, now) {
  const all = (how, list) => list.map((text) => ({ how, text }));
  if (!old.length || !now.length || old.length * now.length > MOST_CELLS) {
    return [...all("gone", old), ...all("new", now)];
  }
  const wide = now.length + 1;
  const length = new Uint32Array((old.length + 1) * wide);
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      length[row * wide + column] = old[row] === now[column]
        ? length[(row + 1) * wide + column + 1] + 1
        : Math.max(length[(row + 1) * wide + column], length[row * wide + column + 1]);
    }
  }
  const found = [];
  let [row, column] = [0, 0];
  while (row < old.length && column < now.length) {
    if (old[row] === now[column]) {
      found.push({ how: "same", text: old[row] });
      row += 1;
      column += 1;
    } else if (length[(row + 1) * wide + column] >= length[row * wide + column + 1]) {
      found.push({ how: "gone", text: old[row++] });
    } else {
      found.push({ how: "new", text: now[column++] });
    }
  }
  return [...found, ...all("gone", old.slice(row)), ...all("new", now.slice(column))];
}

function joined(parts) {
  const found = [];
  for (const part of parts) {
    const last = found.at(-1);
    if (last?.how === part.how) last.text += part.text;
    else found.push({ ...part });
  }
  return found;
}

const TAGS = { same: "span", gone: "del", new: "ins" };

/** The same as an element. */
export function diff(before, after) {
  return el("pre", { class: "diff" }, differences(before, after).map(({ how, text }) => el(TAGS[how], {}, text)));
}
