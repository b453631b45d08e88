//! The network on the command line: the options that say which one a run has.

use engine::network::{NetWish, Publish};
use engine::view::Net;

use crate::error::{CliError, Result};

/// Options of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Wanted {
    /// The network: none, loopback, `allow:HOST[,HOST…]` (HOST[:PORT], *.DOMAIN, an address, a range, or a preset such as npm or
    /// github), open (any public address; `open:HOST[,HOST…]` with these besides), or host (the host's own, unfiltered).
    #[arg(long, value_name = "NET", default_value = "open", value_parser = wanted)]
    net: Box<Net>,

    /// Reach the lane's PORT from this machine's loopback, there as HOST or as the same (may be given again).
    #[arg(long, value_name = "PORT[:HOST]", value_parser = publish)]
    publish: Vec<Publish>,

    /// Reach PORT of this machine's loopback from the lane (may be given again).
    #[arg(long, value_name = "PORT", value_parser = port)]
    host_port: Vec<u16>,
}

impl Wanted {
    /// What they ask for together.
    pub(crate) fn net(self) -> Result<Net> {
        let Wanted { net, publish, host_port } = self;
        (*net).with_ports(host_port, publish).map_err(|wish| match wish {
            NetWish::NoPorts(word) => CliError::Usage(format!(
                "--publish and --host-port hand ports through a wall; --net {word} has {}",
                if word == "host" { "none" } else { "no opening in it (--net loopback has)" }
            )),
            NetWish::Unclear(unclear) => CliError::Usage(unclear.to_string()),
        })
    }
}

fn wanted(word: &str) -> std::result::Result<Box<Net>, String> {
    crate::commands::run::net(word).map(Box::new)
}

fn port(word: &str) -> std::result::Result<u16, String> {
    let number = word.parse().ok().filter(|port| *port != 0);
    number.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())
}

fn publish(word: &str) -> std::result::Result<Publish, String> {
    let (inside, outside) = word.split_once(':').unwrap_or((word, word));
    Ok(Publish { inside: port(inside)?, outside: port(outside)? })
}

/// What may stand after `--net`.
pub(crate) fn kinds() -> &'static str {
    "there are none, loopback, allow:HOST[,HOST…], open, open:HOST[,HOST…] and host; this machine's loopback is reached by \
     --host-port PORT"
}

#[cfg(test)]
mod tests {
    use engine::network::Publish;

    use super::{port, publish};

    #[test]
    fn ports_are_numbers_of_ports() {
        assert_eq!(publish("8080"), Ok(Publish { inside: 8080, outside: 8080 }));
        assert_eq!(publish("80:8080"), Ok(Publish { inside: 80, outside: 8080 }));
        for bad in ["", "0", "65536", ":1", "1:", "1:2:3", "x"] {
            assert!(publish(bad).is_err(), "{bad}");
        }
        assert!(port("65535").is_ok() && port("-1").is_err());
    }
}
