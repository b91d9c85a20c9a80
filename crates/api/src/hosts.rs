//! The host names that requests may use where there are no tokens.
//!
//! A page of another origin can let its own name point to this machine (DNS rebinding), and a
//! browser then takes the server's answers for the page's own. The name stays in `Host`, so
//! only names that no page can take are answered: loopback names, the address itself, and
//! those that the operator allows. No request is exempt, not even probes: a monitor names the
//! server by its address.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use http::header;
use http::uri::Authority;

use crate::code;
use crate::error::ApiError;
use crate::extract::Local;

/// The names in force.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    listen: Option<IpAddr>,
    allowed: Vec<Allowed>,
}

/// A name that the operator allows: `name`, `name:port` or `*.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    name: String,
    port: Option<u16>,
}

/// A host as a request names it.
struct Named {
    name: String,
    port: Option<u16>,
}

impl Hosts {
    /// Those of a server that listens there, and the allowed ones, which were checked.
    pub(crate) fn new(listen: Option<SocketAddr>, allowed: &[String]) -> Self {
        let allowed = allowed.iter().filter_map(|text| parse_allowed(text));
        Self {
            listen: listen.map(|address| address.ip()),
            allowed: allowed.collect(),
        }
    }

    /// Refuses a request that names the server otherwise.
    pub(crate) fn check(&self, request: &Request) -> Result<(), ApiError> {
        let local = request.extensions().get::<Local>().and_then(|it| it.0);
        let local = local.map(|address| address.ip());
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (_, Some(_)) => return Err(refusal("the request has two Host headers")),
            (None, None) => None,
            (Some(host), None) => match host.to_str() {
                Ok(host) => Some(host),
                Err(_) => return Err(refusal("the header Host is no host name")),
            },
        };
        // HTTP/2 has it in the address, and HTTP/1 may: RFC 9112, section 3.2.2.
        let authority = request.uri().authority().map(Authority::as_str);
        if host.is_none() && authority.is_none() {
            return Err(refusal("the request does not name the host"));
        }
        for text in [host, authority].into_iter().flatten() {
            let Some(named) = parse(text) else {
                return Err(refusal("the header Host is no host name"));
            };
            if !self.allows(&named, local) {
                return Err(refusal(&format!("the server is not known as {text:?}")));
            }
        }
        Ok(())
    }

    fn allows(&self, named: &Named, local: Option<IpAddr>) -> bool {
        let bare = named.name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            let ip = ip.to_canonical();
            let same = |own: Option<IpAddr>| own.is_some_and(|own| own.to_canonical() == ip);
            let everywhere = self.listen.is_none_or(|listen| listen.is_unspecified());
            let own = if everywhere { local } else { self.listen };
            return ip.is_loopback() || same(own) || self.is_allowed(named);
        }
        let loopback = named.name == "localhost" || named.name.ends_with(".localhost");
        loopback || self.is_allowed(named)
    }

    fn is_allowed(&self, named: &Named) -> bool {
        self.allowed.iter().any(|allowed| {
            let fits = match allowed.name.strip_prefix('*') {
                Some(suffix) => named.name.ends_with(suffix) && named.name.len() > suffix.len(),
                None => allowed.name == named.name,
            };
            fits && allowed.port.is_none_or(|port| named.port == Some(port))
        })
    }
}

/// Whether a text can be a name that is allowed.
#[must_use]
pub fn is_host_pattern(text: &str) -> bool {
    parse_allowed(text).is_some()
}

fn parse_allowed(text: &str) -> Option<Allowed> {
    let (star, rest) = match text.strip_prefix("*.") {
        Some(rest) => ("*.", rest),
        None => ("", text),
    };
    let named = parse(rest)?;
    Some(Allowed {
        name: format!("{star}{}", named.name),
        port: named.port,
    })
}

/// A host with or without a port, as RFC 9110 section 7.2 has it, and nothing else: no user,
/// no dot at its end, no other way to write a number.
fn parse(text: &str) -> Option<Named> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            (name, Some(port.parse().ok().filter(|_| digits)?))
        }
        _ => (text, None),
    };
    let label = |label: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(known)
    };
    let literal = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let good = match literal {
        Some(literal) => literal.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.len() <= 253 && name.split('.').all(label),
    };
    good.then(|| Named {
        name: name.to_ascii_lowercase(),
        port,
    })
}

fn refusal(reason: &str) -> ApiError {
    code::HOST_NOT_ALLOWED.error(reason).hint(
        "without tokens the server answers as localhost, by a loopback address or by the \
         address it listens on; allow another name with --allow-host",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn hosts(listen: &str, allowed: &[&str]) -> Hosts {
        let allowed: Vec<String> = allowed.iter().map(|it| (*it).to_owned()).collect();
        Hosts::new(Some(listen.parse().unwrap()), &allowed)
    }

    fn is_answered(hosts: &Hosts, host: &str, local: &str) -> bool {
        let mut request = Request::new(Body::empty());
        let Ok(value) = host.parse() else {
            return false;
        };
        request.headers_mut().insert(header::HOST, value);
        let local = Local(Some(local.parse().unwrap()));
        request.extensions_mut().insert(local);
        hosts.check(&request).is_ok()
    }

    #[test]
    fn only_names_that_no_page_can_take_are_answered() {
        let hosts = hosts("127.0.0.1:7400", &[]);
        let local = "127.0.0.1:7400";
        for good in [
            "localhost",
            "LOCALHOST:7400",
            "localhost:1",
            "a.localhost",
            "127.0.0.1",
            "127.8.9.1:80",
            "[::1]",
            "[::1]:7400",
            "[::ffff:127.0.0.1]:7400",
        ] {
            assert!(is_answered(&hosts, good, local), "{good}");
        }
        for bad in [
            "",
            ":7400",
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            ".localhost",
            "localhost.",
            "127.0.0.1.evil.example",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0.0.0.0:7400",
            "10.0.0.1",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]:",
            "localhost:",
            "localhost:x",
            "localhost:99999",
            "localhost:+1",
            "user@localhost",
            "localhost/",
            "localhost, evil.example",
            "localhost evil.example",
            "[fe80::1%25lo]",
        ] {
            assert!(!is_answered(&hosts, bad, local), "{bad}");
        }
    }

    #[test]
    fn the_address_that_is_listened_on_is_answered() {
        let one = hosts("10.1.2.3:7400", &[]);
        assert!(is_answered(&one, "10.1.2.3:7400", "10.1.2.3:7400"));
        assert!(!is_answered(&one, "10.1.2.4:7400", "10.1.2.3:7400"));
        let all = hosts("0.0.0.0:7400", &[]);
        assert!(is_answered(&all, "10.1.2.3", "10.1.2.3:7400"));
        assert!(!is_answered(&all, "10.1.2.4", "10.1.2.3:7400"));
        assert!(!is_answered(&all, "0.0.0.0", "10.1.2.3:7400"));
        let all = hosts("[::]:7400", &[]);
        assert!(is_answered(&all, "10.1.2.3", "[::ffff:10.1.2.3]:7400"));
        assert!(is_answered(
            &all,
            "[2001:db8::1]:7400",
            "[2001:db8::1]:7400"
        ));
    }

    #[test]
    fn the_operator_allows_names() {
        let allowed = ["Windlass.example", "a.example:81", "*.inner.example"];
        let hosts = hosts("127.0.0.1:7400", &allowed);
        let local = "127.0.0.1:7400";
        for good in ["windlass.example:9", "a.example:81", "x.inner.example"] {
            assert!(is_answered(&hosts, good, local), "{good}");
        }
        for bad in [
            "x.windlass.example",
            "a.example",
            "a.example:82",
            "inner.example",
        ] {
            assert!(!is_answered(&hosts, bad, local), "{bad}");
        }
        for wrong in ["", "*", "*.", "http://a.example", "a b", "a.*"] {
            assert!(!is_host_pattern(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_request_names_the_host_once() {
        let hosts = hosts("127.0.0.1:7400", &[]);
        let mut request = Request::new(Body::empty());
        assert!(hosts.check(&request).is_err(), "not at all");
        *request.uri_mut() = "http://localhost/x".parse().unwrap();
        assert!(hosts.check(&request).is_ok(), "as HTTP/2 does");
        let headers = request.headers_mut();
        headers.insert(header::HOST, "evil.example".parse().unwrap());
        assert!(hosts.check(&request).is_err(), "both ways, differently");
        let headers = request.headers_mut();
        headers.insert(header::HOST, "localhost".parse().unwrap());
        assert!(hosts.check(&request).is_ok());
        let headers = request.headers_mut();
        headers.append(header::HOST, "localhost".parse().unwrap());
        assert!(hosts.check(&request).is_err(), "twice");
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "http://evil.example/x".parse().unwrap();
        let headers = request.headers_mut();
        headers.insert(header::HOST, "localhost".parse().unwrap());
        assert!(hosts.check(&request).is_err(), "in the target");
    }
}
