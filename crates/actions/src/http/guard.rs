//! Which addresses may be reached. Private, local and special ones are refused unless they are
//! allowed: as a literal in the address, after a name was resolved, and on every redirect. The
//! check is made on the very address that is connected to, so a name that resolves differently
//! between check and use changes nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};
use windlass_engine::ActionError;

/// What may be reached besides public addresses.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    networks: Vec<(IpAddr, u8)>,
    names: Vec<String>,
}

/// An address that must not be reached.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    host: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is a private or special address; it can be allowed with WINDLASS_HTTP_ALLOW \
             or http_allow in windlass.toml",
            self.host
        )
    }
}

impl std::error::Error for Refused {}

impl Refused {
    pub(crate) fn into_error(self) -> ActionError {
        ActionError::failed("HTTP_ADDRESS_REFUSED", self.to_string())
    }
}

impl Allowed {
    /// Nothing but public addresses.
    pub fn public() -> Self {
        Self::default()
    }

    /// Reads a list of addresses, networks (`10.0.0.0/8`) and host names, all without a port. A
    /// name means that host alone, not those below it.
    ///
    /// # Errors
    /// The entry that is none of these.
    pub fn parse(entries: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, String> {
        let mut allowed = Self::default();
        for entry in entries {
            let entry = entry.as_ref().trim();
            let (address, bits) = match entry.split_once('/') {
                Some((address, bits)) => (address, Some(bits)),
                None => (entry, None),
            };
            match (address.parse::<IpAddr>(), bits) {
                (Ok(ip), None) => allowed.networks.push((ip, width(ip))),
                (Ok(ip), Some(bits)) => match bits.parse::<u8>() {
                    Ok(bits) if bits <= width(ip) => allowed.networks.push((ip, bits)),
                    _ => return Err(format!("'{entry}' is not a network")),
                },
                (Err(_), None) if is_host_name(entry) => {
                    let name = entry.trim_end_matches('.');
                    allowed.names.push(name.to_ascii_lowercase());
                }
                (Err(_), _) => {
                    return Err(format!(
                        "'{entry}' is not an address, a network or a host name; none has a port"
                    ));
                }
            }
        }
        Ok(allowed)
    }

    /// Checks an address that is written as a number; names are checked when resolved.
    pub(crate) fn check_literal(&self, url: &Url) -> Result<(), Refused> {
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            _ => return Ok(()),
        };
        if self.address(address) {
            return Ok(());
        }
        Err(Refused {
            host: url.host_str().unwrap_or_default().to_owned(),
        })
    }

    /// Whether an address may be reached.
    pub(crate) fn address(&self, address: IpAddr) -> bool {
        is_public(address)
            || self
                .networks
                .iter()
                .any(|&(network, bits)| contains(network, bits, address))
    }

    /// Whether a name may be reached wherever it points.
    pub(crate) fn name(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.names.contains(&name)
    }

    pub(crate) fn refuse(&self, host: &str) -> Refused {
        Refused {
            host: host.to_owned(),
        }
    }
}

/// Whether the host of a URL can be this name. What cannot would be allowed and never matched.
fn is_host_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(letter);
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    // A host that ends with a number is an address in a URL.
    let last = labels.clone().next_back().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    labels.into_iter().all(is_label) && !is_number
}

/// An absolute http or https address.
pub(crate) fn parse(text: &str) -> Result<Url, ActionError> {
    let invalid = |reason: &dyn fmt::Display| {
        let message = format!("'{text}' is not a usable address: {reason}");
        ActionError::failed("PARAMETERS_INVALID", message)
    };
    let url = Url::parse(text).map_err(|error| invalid(&error))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(&"only http and https can be requested"));
    }
    Ok(url)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    match (network, canonical(address)) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            u32::from(network) & mask == u32::from(address) & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            u128::from(network) & mask == u128::from(address) & mask
        }
        _ => false,
    }
}

/// An IPv4 address written as IPv6 is checked as IPv4.
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056) carry an IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // The deprecated IPv4-compatible form, but for :: and ::1.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => embedded(high, low),
        _ => address,
    }
}

fn is_public(address: IpAddr) -> bool {
    match canonical(address) {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Everything but the special-purpose blocks of RFC 6890 and its successors.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19)))
}

/// Only global unicast (2000::/3), without documentation and benchmarking blocks.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let global = segments[0] & 0xe000 == 0x2000;
    let documentation =
        segments[0] == 0x2001 && segments[1] == 0x0db8 || segments[0] & 0xfff0 == 0x3ff0;
    let special = segments[0] == 0x2001 && segments[1] < 0x0200;
    global && !documentation && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, public: bool) {
        assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
    }

    #[test]
    fn special_addresses_are_not_public() {
        let addresses = "127.0.0.1 127.9.9.9 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 \
            192.168.0.1 169.254.169.254 100.64.0.1 198.18.0.1 224.0.0.1 255.255.255.255 \
            240.0.0.1 192.0.0.1 203.0.113.9 ::1 :: fe80::1 fc00::1 fd12::1 ff02::1 \
            ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: ::127.0.0.1 \
            2001:db8::1 2001::1";
        addresses
            .split_whitespace()
            .for_each(|address| check(address, false));
    }

    #[test]
    fn ordinary_addresses_are_public() {
        let addresses = "1.1.1.1 8.8.8.8 172.32.0.1 2606:4700::1111 ::ffff:8.8.8.8";
        addresses
            .split_whitespace()
            .for_each(|address| check(address, true));
    }

    #[test]
    fn numbers_in_disguise_are_recognised() {
        let allowed = Allowed::public();
        let disguises = "http://127.1/ http://2130706433/ http://0x7f.0.0.1/ \
            http://0177.0.0.1/ http://[::ffff:7f00:1]/ http://①②⑦.0.0.1/";
        for text in disguises.split_whitespace() {
            let url = parse(text).unwrap();
            assert!(allowed.check_literal(&url).is_err(), "{text}");
        }
    }

    #[test]
    fn what_can_never_match_is_refused() {
        let good = [
            "127.0.0.1",
            "::1",
            "10.0.0.0/8",
            "intranet",
            "a-b.example.",
            "x_1.test",
        ];
        for entry in good {
            assert!(Allowed::parse([entry]).is_ok(), "{entry}");
        }
        let bad = [
            "127.0.0.1:7599",
            "[::1]",
            "[::1]:80",
            "intranet:80",
            "http://intranet",
            "*.example",
            "10.0.0.0/33",
            "10.0.0",
            "a b",
            "a..b",
            "bücher.example",
        ];
        for entry in bad {
            let refused = Allowed::parse([entry]).expect_err(entry);
            assert!(refused.contains(entry), "{refused}");
        }
        assert!(
            Allowed::parse(["a.example."])
                .expect("a name")
                .name("a.example")
        );
    }

    #[test]
    fn what_is_allowed_is_reached() {
        let allowed = Allowed::parse(["127.0.0.1", "10.0.0.0/8", "internal.example"]).unwrap();
        assert!(allowed.address("127.0.0.1".parse().unwrap()));
        assert!(!allowed.address("127.0.0.2".parse().unwrap()));
        assert!(allowed.address("10.200.1.1".parse().unwrap()));
        assert!(allowed.name("Internal.Example."));
        assert!(Allowed::parse(["10.0.0.0/33"]).is_err());
        assert!(Allowed::parse([""]).is_err());
    }
}
