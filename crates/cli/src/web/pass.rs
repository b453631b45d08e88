//! Who may come in: a one-time token is exchanged for a cookie and a key, and only both together open anything.
//!
//! The cookie alone would not do, because browsers send the cookies of one port of a host to its other ports too, and
//! a server that a lane runs may listen on one of them. The key is given to the page alone, which keeps it where no
//! other origin can read it, and sends it in a header, which no other origin can set. A key alone would not do, because a page
//! of ours that is open somewhere could be talked to by its own browser's extensions; the cookie is out of reach there.
//!
//! Invariants: a token opens once; a wrong one changes nothing. Secrets are 256 random bits and are compared in a time
//! that does not depend on where they differ.

use std::sync::Mutex;

/// The secrets of one server.
#[derive(Debug)]
pub(super) struct Pass {
    token: Mutex<Option<String>>,
    cookie: String,
    key: String,
    port: u16,
}

/// The header that carries the key.
pub(super) const KEY_HEADER: &str = "x-lane-key";

impl Pass {
    /// New secrets.
    pub(super) fn new(port: u16) -> engine::Result<Pass> {
        Ok(Pass {
            token: Mutex::new(Some(engine::clock::secret()?)),
            cookie: engine::clock::secret()?,
            key: engine::clock::secret()?,
            port,
        })
    }

    /// The token that was not used yet.
    pub(super) fn token(&self) -> Option<String> {
        self.token.lock().ok().and_then(|token| token.clone())
    }

    /// Uses the token up: the key for the page, where it was the right one.
    pub(super) fn exchange(&self, offered: &str) -> Option<&str> {
        let mut token = self.token.lock().ok()?;
        if !token.as_deref().is_some_and(|token| is_equal(token, offered)) {
            return None;
        }
        *token = None;
        Some(&self.key)
    }

    /// The line that gives the browser its cookie.
    pub(super) fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name(), self.cookie)
    }

    /// Cookies know no ports: each server has a name of its own.
    fn cookie_name(&self) -> String {
        format!("lane-web-{}", self.port)
    }

    /// True where the cookie line of a request holds our cookie, and the key is ours.
    pub(super) fn admits(&self, cookies: Option<&str>, key: Option<&str>) -> bool {
        let name = self.cookie_name();
        let ours = |pair: &str| {
            pair.trim().split_once('=').is_some_and(|(at, value)| at == name && is_equal(value, &self.cookie))
        };
        cookies.is_some_and(|line| line.split(';').any(ours))
            && key.is_some_and(|key| is_equal(key, &self.key))
    }
}

fn is_equal(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::{Pass, is_equal};

    fn cookie(pass: &Pass) -> String {
        pass.set_cookie().split(';').next().expect("a pair").to_owned()
    }

    #[test]
    fn a_token_opens_once_and_a_wrong_one_does_not_use_it_up() {
        let pass = Pass::new(1).expect("secrets");
        let token = pass.token().expect("fresh");
        assert_eq!(pass.exchange(""), None);
        assert_eq!(pass.exchange(&token[1..]), None);
        assert!(pass.exchange(&token).is_some());
        assert_eq!(pass.exchange(&token), None);
        assert_eq!(pass.token(), None);
    }

    #[test]
    fn only_cookie_and_key_together_are_admitted() {
        let (pass, other) = (Pass::new(1).expect("secrets"), Pass::new(1).expect("secrets"));
        let key = pass.exchange(&pass.token().expect("fresh")).map(str::to_owned);
        let both = format!("a=b; {}", cookie(&pass));
        assert!(pass.admits(Some(&both), key.as_deref()));
        assert!(!pass.admits(Some(&both), None));
        assert!(!pass.admits(None, key.as_deref()));
        assert!(!pass.admits(Some(&cookie(&other)), key.as_deref()));
        assert!(!other.admits(Some(&cookie(&other)), key.as_deref()));
    }

    #[test]
    fn comparing_takes_length_and_every_byte_into_account() {
        assert!(is_equal("ab", "ab"));
        assert!(!is_equal("ab", "a") && !is_equal("ab", "ac") && !is_equal("", "a"));
    }
}
