//! Where a collector takes spans.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// Where a collector takes spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Url);

/// Why an address is not that of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError(String);

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a collector's address: {}", self.0)
    }
}

impl std::error::Error for EndpointError {}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads an absolute http or https address.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let url = Url::parse(text.trim()).map_err(|error| EndpointError(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EndpointError("it must be http or https".to_owned()));
        }
        Ok(Self(url))
    }
}

impl Endpoint {
    /// The address for HTTP; one without a path gets `/v1/traces`, as the standard variables
    /// have it.
    pub(super) fn http(&self) -> String {
        let mut url = self.0.clone();
        if matches!(url.path(), "" | "/") {
            url.set_path("/v1/traces");
        }
        url.into()
    }

    /// The address for gRPC, whose paths are those of its services.
    pub(super) fn grpc(&self) -> String {
        self.0.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_usual_one() {
        let check = |text: &str, expected: &str| {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.http(), expected);
        };
        check("http://host:4318", "http://host:4318/v1/traces");
        check("https://host/", "https://host/v1/traces");
        check("https://host/otlp/v1/traces", "https://host/otlp/v1/traces");
        let endpoint: Endpoint = "http://host:4317".parse().unwrap();
        assert_eq!(endpoint.grpc(), "http://host:4317/");
        for text in ["host:4318", "", "ftp://host", "http://"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
