// Making elements. Everything that is shown becomes a text node or an attribute here, never markup.

const SVG = 'http://www.w3.org/2000/svg';

/** An element: properties that begin with `on` are listeners, `class` and all else attributes. Children are our own
 * words, elements, lists of these, or nothing. */
export function h(tag, props = {}, ...children) {
  return dress(document.createElement(tag), props, children);
}

/** The same in an SVG. */
export function s(tag, props = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), props, children);
}

function dress(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  put(element, children);
  return element;
}

function put(element, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false) continue;
    if (Array.isArray(child)) put(element, child);
    else element.append(child);
  }
}

/** Text of a lane, as the server made it fit to be shown: what it had to escape stands in boxes. */
export function shown(text, className = '') {
  const span = h('bdi', { class: `shown ${className}`.trim() });
  if (typeof text === 'string') {
    span.append(text);
    return span;
  }
  (text ?? []).forEach((part, index) => {
    if (!part) return;
    if (index % 2 === 0) span.append(part);
    else span.append(h('span', { class: 'box', title: 'These characters cannot be seen, or act on what shows them.' }, part));
  });
  return span;
}

/** The same as plain words, for titles and labels. */
export function plain(text) {
  if (typeof text === 'string') return text;
  return (text ?? []).join('');
}

/** A button. */
export function button(words, props, onclick) {
  return h('button', { type: 'button', ...props, onclick }, words);
}

/** How long ago, in the words of the terminal. */
export function age(then, now) {
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** `1 file`, `2 files`. */
export function count(number, word, words = `${word}s`) {
  return `${number.toLocaleString('en')} ${number === 1 ? word : words}`;
}

/** Bytes in the unit that keeps them short. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1023.95 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(1)} ${units[unit]}`;
}

/** A line over the page for a while, away from the verbs at its foot; with a button where something can follow. */
export function toast(words, { bad = false, stays = bad, action, act } = {}) {
  const line = h('div', { class: bad ? 'toast bad' : 'toast' }, h('span', {}, words));
  const close = () => line.remove();
  if (action) {
    line.append(button(action, { class: 'link' }, () => {
      close();
      act();
    }));
  }
  line.append(button('×', { class: 'link', 'aria-label': 'Close this message' }, close));
  document.getElementById('toasts').append(line);
  if (!stays && !action) setTimeout(close, 8000);
  return line;
}

/** An error of the server's, whole. */
export function problem(error) {
  const said = error?.said;
  if (!said) return h('div', { class: 'problem', role: 'alert' }, h('p', {}, String(error?.message ?? error)));
  return h('div', { class: 'problem', role: 'alert' },
    h('p', {}, shown(said.message)),
    said.causes.map((cause) => h('p', { class: 'quiet' }, 'cause: ', shown(cause))),
    said.hint ? h('p', { class: 'quiet' }, 'hint: ', shown(said.hint)) : null);
}
