//! What kind of place an address is: public, or one of those that nobody on the internet has.
//!
//! Rests on the special-purpose registries of the IANA (RFC 6890 and its updates). Invariant: an address that carries
//! another one (IPv4 in IPv6, NAT64, 6to4, Teredo) is never better than the one it carries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Anybody's.
    Public,
    /// Set aside for examples (RFC 5737, RFC 3849): nobody's, unless the machine's own network uses it.
    Example,
    /// This machine.
    Loopback,
    /// Not for the outside: what it is.
    Special(&'static str),
}

/// The address that a connection to this one reaches: an IPv4 address that is written as IPv6 is that IPv4 address.
pub fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Net {
    /// Its first address, or any in it.
    pub base: IpAddr,
    /// How many bits are fixed.
    pub bits: u8,
}

impl Net {
    /// One address, or `ADDRESS/BITS`.
    pub fn parse(text: &str) -> Option<Net> {
        let (base, bits) = match text.split_once('/') {
            Some((base, bits)) => (base, Some(bits)),
            None => (text, None),
        };
        let base = base.strip_prefix('[').and_then(|base| base.strip_suffix(']')).unwrap_or(base);
        let base = canonical(base.parse().ok()?);
        let width = if base.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => width,
        };
        (bits <= width).then_some(Net { base, bits })
    }

    /// True where `address` lies in it.
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.base, canonical(address)) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(base) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(base) & mask == u128::from(address) & mask
            }
            _ => false,
        }
    }

    /// True where it is one address.
    pub fn is_single(&self) -> bool {
        self.bits == if self.base.is_ipv4() { 32 } else { 128 }
    }
}

impl std::fmt::Display for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.is_single(), self.base) {
            (true, base) => base.fmt(f),
            (false, base) => write!(f, "{base}/{}", self.bits),
        }
    }
}

/// What kind of place it is.
pub fn place(address: IpAddr) -> Place {
    match canonical(address) {
        IpAddr::V4(address) => place_v4(address),
        IpAddr::V6(address) => place_v6(address),
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Net {
    Net { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
}

const fn v6(first: u16, second: u16, third: u16, bits: u8) -> Net {
    Net { base: IpAddr::V6(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0)), bits }
}

const METADATA: Place = Place::Special("a cloud's metadata service");
const PRIVATE: Place = Place::Special("private");

/// The first that holds the address counts.
const V4: &[(Net, Place)] = &[
    (v4(127, 0, 0, 0, 8), Place::Loopback),
    (v4(169, 254, 169, 254, 32), METADATA),
    (v4(169, 254, 170, 2, 32), METADATA),
    (v4(100, 100, 100, 200, 32), METADATA),
    (v4(168, 63, 129, 16, 32), METADATA),
    (v4(0, 0, 0, 0, 8), Place::Special("this host (0.0.0.0/8)")),
    (v4(10, 0, 0, 0, 8), PRIVATE),
    (v4(172, 16, 0, 0, 12), PRIVATE),
    (v4(192, 168, 0, 0, 16), PRIVATE),
    (v4(100, 64, 0, 0, 10), Place::Special("shared by a provider's customers (100.64.0.0/10)")),
    (v4(169, 254, 0, 0, 16), Place::Special("link-local")),
    (v4(192, 0, 0, 0, 24), Place::Special("reserved for protocols (192.0.0.0/24)")),
    (v4(192, 88, 99, 0, 24), Place::Special("reserved (192.88.99.0/24)")),
    (v4(198, 18, 0, 0, 15), Place::Special("reserved for benchmarks (198.18.0.0/15)")),
    (v4(192, 0, 2, 0, 24), Place::Example),
    (v4(198, 51, 100, 0, 24), Place::Example),
    (v4(203, 0, 113, 0, 24), Place::Example),
    (v4(224, 0, 0, 0, 4), Place::Special("multicast")),
    (v4(240, 0, 0, 0, 4), Place::Special("reserved (240.0.0.0/4)")),
];

fn place_v4(address: Ipv4Addr) -> Place {
    let of = V4.iter().find(|(net, _)| net.has(address.into()));
    of.map_or(Place::Public, |(_, place)| *place)
}

const V6: &[(Net, Place)] = &[
    // fd00:ec2::254, fd20:ce::254.
    (Net { base: IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), bits: 128 }, METADATA),
    (Net { base: IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), bits: 128 }, METADATA),
    (v6(0xfc00, 0, 0, 7), PRIVATE),
    (v6(0xfe80, 0, 0, 10), Place::Special("link-local")),
    (v6(0xfec0, 0, 0, 10), Place::Special("site-local")),
    (v6(0xff00, 0, 0, 8), Place::Special("multicast")),
    (v6(0x100, 0, 0, 64), Place::Special("discarded (100::/64)")),
    (v6(0x2001, 0xdb8, 0, 32), Place::Example),
    (v6(0x3fff, 0, 0, 20), Place::Example),
    // ORCHIDs, benchmarks and the rest of the protocols' own range.
    (v6(0x2001, 0, 0, 23), Place::Special("reserved for protocols (2001::/23)")),
    (v6(0x5f00, 0, 0, 16), Place::Special("segment routing (5f00::/16)")),
];

/// Ranges that carry an IPv4 address, and the byte at which it begins.
const CARRIERS: &[(Net, usize)] = &[
    // NAT64 (RFC 6052), 6to4 (RFC 3056), IPv4-compatible and IPv4-translated addresses (RFC 4291, RFC 2765).
    (v6(0x64, 0xff9b, 0, 96), 12),
    (v6(0x2002, 0, 0, 16), 2),
    (v6(0, 0, 0, 96), 12),
    (Net { base: IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0)), bits: 96 }, 12),
];

fn place_v6(address: Ipv6Addr) -> Place {
    if address.is_loopback() {
        return Place::Loopback;
    }
    if address.is_unspecified() {
        return Place::Special("this host (::)");
    }
    let octets = address.octets();
    if let Some((_, at)) = CARRIERS.iter().find(|(net, _)| net.has(address.into())) {
        let carried = Ipv4Addr::new(octets[*at], octets[at + 1], octets[at + 2], octets[at + 3]);
        return match place_v4(carried) {
            Place::Loopback => Place::Special("an IPv6 form of this host's loopback"),
            other => other,
        };
    }
    if v6(0x64, 0xff9b, 1, 48).has(address.into()) {
        return Place::Special("translated to private addresses (64:ff9b:1::/48)");
    }
    // ISATAP (RFC 5214) carries an address of any kind in a prefix of any kind.
    if matches!(octets[8..12], [0 | 2, 0, 0x5e, 0xfe]) {
        let carried = place_v4(Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]));
        if carried != Place::Public {
            return Place::Special("a tunnel to an address that is not public");
        }
    }
    if let Some((_, place)) = V6.iter().find(|(net, _)| net.has(address.into())) {
        return *place;
    }
    // Only 2000::/3 has been given out.
    if v6(0x2000, 0, 0, 3).has(address.into()) { Place::Public } else { Place::Special("not given out") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Net, Place, place};

    fn of(text: &str) -> Place {
        place(text.parse().expect("an address"))
    }

    #[test]
    fn every_special_range_is_known_at_both_ends_and_its_neighbours_are_public() {
        for special in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "fc00::",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "2001:1::1",
            "2001:10::1",
            "4000::1",
            "::a00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::808:808",
            "2002:a00:1::1",
            "2002:7f00:1::",
            "::ffff:10.0.0.1",
            "::ffff:0:10.0.0.1",
            "2001:0:1:2::3",
            "2600::5efe:10.0.0.1",
            "fd00:ec2::254",
            "64:ff9b::7f00:1",
        ] {
            assert!(matches!(of(special), Place::Special(_)), "{special}: {:?}", of(special));
        }
        for loopback in ["127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(loopback), Place::Loopback, "{loopback}");
        }
        for public in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "93.184.216.34",
            "2606:4700::1111",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
            "2001:4860:4860::8888",
        ] {
            assert_eq!(of(public), Place::Public, "{public}");
        }
        for example in ["192.0.2.1", "198.51.100.7", "203.0.113.255", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert_eq!(of(example), Place::Example, "{example}");
        }
    }

    #[test]
    fn a_range_holds_what_lies_in_it_in_either_spelling() {
        let net = Net::parse("10.1.0.0/16").expect("a range");
        assert!(net.has("10.1.255.255".parse().expect("an address")));
        assert!(net.has("::ffff:10.1.2.3".parse().expect("an address")));
        assert!(!net.has("10.2.0.0".parse().expect("an address")));
        assert_eq!(Net::parse("::ffff:10.1.2.3").expect("one").to_string(), "10.1.2.3");
        for none in ["10.0.0.0/33", "10.0.0/8", "::/129", "a", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(Net::parse(none), None, "{none}");
        }
        assert!(Net::parse("0.0.0.0/0").expect("all").has("8.8.8.8".parse().expect("an address")));
    }

    proptest! {
        #[test]
        fn an_address_that_carries_another_is_never_better_than_it(carried in any::<u32>(), high in any::<u64>()) {
            let four = std::net::Ipv4Addr::from(carried);
            let inner = place(four.into());
            let [a, b, c, d] = four.octets().map(u16::from);
            let (one, two) = (a << 8 | b, c << 8 | d);
            let rest = [high as u16, (high >> 16) as u16, (high >> 32) as u16];
            for six in [
                std::net::Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, one, two),
                std::net::Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, one, two),
                std::net::Ipv6Addr::new(0x2002, one, two, rest[0], rest[1], rest[2], 0, 1),
                std::net::Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, one, two),
            ] {
                let outer = place(six.into());
                prop_assert!(outer != Place::Public || inner == Place::Public, "{six}: {outer:?} of {inner:?}");
            }
        }
    }
}
