// Talking to the server. Every request carries the key that the one-time token was exchanged for; the cookie that goes
// with it is out of reach here.

const KEPT = 'lane-key';
let key = localStorage.getItem(KEPT);
let onLocked = () => {};

/** What the server said instead of an answer. */
export class Refused extends Error {
  constructor(said) {
    super('refused');
    this.said = said;
  }
}

/** The server is gone, or does not know this page any more. */
export class Gone extends Error {}

/** Calls `listener` when the page is not let in. */
export function whenLocked(listener) {
  onLocked = listener;
}

/** Exchanges the token of the address, where there is one. */
export async function open() {
  const token = /^#([0-9a-f]{64})$/.exec(location.hash)?.[1];
  if (token) {
    // The address must not stay in the history with it.
    history.replaceState(null, '', '/');
    const answer = await post('/enter', { token });
    if (answer.ok) {
      key = (await answer.json()).key;
      localStorage.setItem(KEPT, key);
    } else if (!key) {
      return false;
    }
  }
  return Boolean(key);
}

/** Asks for something; the answer, or an error that says why not. */
export async function ask(request, signal) {
  let answer;
  try {
    answer = await post('/ask', request, signal);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Gone('The page’s server has ended. Start `lane web` again.');
  }
  if (answer.status === 401) {
    key = null;
    localStorage.removeItem(KEPT);
    onLocked();
    throw new Gone('This page is not let in any more.');
  }
  if (answer.status === 200) return answer.json();
  if (answer.status === 409) throw new Refused((await answer.json()).error);
  throw new Gone(`The request was not answered (${answer.status}).`);
}

function post(path, body, signal) {
  return fetch(path, {
    method: 'POST',
    credentials: 'same-origin',
    headers: { 'content-type': 'application/json', 'x-lane-key': key ?? '' },
    body: JSON.stringify(body),
    signal,
  });
}
