//! Where spans go and in which batches: what the settings say, then OpenTelemetry's standard
//! variables. The exporter itself reads the variables of endpoints and headers, and the SDK
//! those of the resource.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Endpoint;

/// How spans are sent, and how many wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// The collector; without it, the one that the standard variables name.
    pub endpoint: Option<Endpoint>,
    /// How to speak to it.
    pub protocol: Protocol,
    /// How long a collector may take to take a batch, retries included.
    pub timeout: Duration,
    /// How many spans wait at most; what comes then is dropped and counted.
    pub queue: usize,
    /// How many spans one request has at most.
    pub batch: usize,
    /// How long the first span of a batch waits for others.
    pub delay: Duration,
}

/// How spans are encoded and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

/// A variable whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettingsError {
    variable: &'static str,
    value: String,
    expected: &'static str,
}

impl fmt::Display for TraceSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            variable,
            value,
            expected,
        } = self;
        write!(f, "{variable}: '{value}' is not {expected}")
    }
}

impl std::error::Error for TraceSettingsError {}

impl TraceOptions {
    /// The usual options, for a collector or for the one that the standard variables name.
    pub fn new(endpoint: Option<Endpoint>) -> Self {
        Self {
            endpoint,
            protocol: Protocol::Http,
            timeout: Duration::from_secs(10),
            queue: 8192,
            batch: 512,
            delay: Duration::from_secs(1),
        }
    }

    /// The options by a setting and OpenTelemetry's variables; nothing if neither names a
    /// collector, or a variable turns traces off.
    pub fn from_variables(
        endpoint: Option<Endpoint>,
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TraceSettingsError> {
        // The specification treats an empty variable as one that is not set.
        let read = |name: &'static str| {
            let value = read(name)?.trim().to_owned();
            (!value.is_empty()).then_some(Variable { name, value })
        };
        let first = |names: [&'static str; 2]| names.into_iter().find_map(read);
        let disabled = read("OTEL_SDK_DISABLED");
        if disabled.is_some_and(|it| it.value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let wanted = match read("OTEL_TRACES_EXPORTER") {
            None => endpoint.is_some() || first(ENDPOINTS).is_some(),
            Some(it) => match it.value.as_str() {
                "none" => return Ok(None),
                "otlp" => true,
                _ => return Err(it.unlike("'otlp' or 'none'")),
            },
        };
        if !wanted {
            return Ok(None);
        }
        let mut options = Self::new(endpoint);
        if let Some(protocol) = first(PROTOCOLS) {
            options.protocol = match protocol.value.as_str() {
                "http/protobuf" => Protocol::Http,
                "grpc" => Protocol::Grpc,
                _ => return Err(protocol.unlike("'http/protobuf' or 'grpc'")),
            };
        }
        if let Some(timeout) = first(TIMEOUTS) {
            options.timeout = timeout.milliseconds()?;
        }
        if let Some(delay) = read("OTEL_BSP_SCHEDULE_DELAY") {
            options.delay = delay.milliseconds()?;
        }
        if let Some(queue) = read("OTEL_BSP_MAX_QUEUE_SIZE") {
            options.queue = queue.count()?;
        }
        if let Some(batch) = read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") {
            options.batch = batch.count()?;
        }
        if let Some(timeout) = read("OTEL_BSP_EXPORT_TIMEOUT") {
            options.timeout = options.timeout.min(timeout.milliseconds()?);
        }
        options.batch = options.batch.min(options.queue);
        Ok(Some(options))
    }
}

/// Of each pair, the variable of traces wins over the one of all signals.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
const TIMEOUTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];

/// The most spans that may wait, about a gigabyte of them.
const QUEUE_LIMIT: usize = 1 << 20;

struct Variable {
    name: &'static str,
    value: String,
}

impl Variable {
    fn unlike(&self, expected: &'static str) -> TraceSettingsError {
        TraceSettingsError {
            variable: self.name,
            value: self.value.clone(),
            expected,
        }
    }

    fn number<N: FromStr>(&self, expected: &'static str) -> Result<N, TraceSettingsError> {
        self.value.parse().map_err(|_| self.unlike(expected))
    }

    fn milliseconds(&self) -> Result<Duration, TraceSettingsError> {
        self.number("a number of milliseconds")
            .map(Duration::from_millis)
    }

    fn count(&self) -> Result<usize, TraceSettingsError> {
        const EXPECTED: &str = "a number from 1 to 1048576";
        match self.number(EXPECTED)? {
            count @ 1..=QUEUE_LIMIT => Ok(count),
            _ => Err(self.unlike(EXPECTED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(
        setting: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Option<TraceOptions>, TraceSettingsError> {
        let setting = setting.map(|text| text.parse().unwrap());
        TraceOptions::from_variables(setting, |name| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_on_when_a_collector_is_named_and_no_variable_turns_them_off() {
        let is_on =
            |setting, variables: &[(&str, &str)]| options(setting, variables).unwrap().is_some();
        let (setting, general) = (
            Some("http://c"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
        );
        assert!(!is_on(None, &[]));
        assert!(is_on(setting, &[]));
        assert!(is_on(None, &[general]));
        assert!(is_on(
            None,
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c")]
        ));
        assert!(!is_on(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]));
        assert!(is_on(None, &[("OTEL_TRACES_EXPORTER", "otlp")]));
        assert!(!is_on(setting, &[("OTEL_TRACES_EXPORTER", "none")]));
        assert!(!is_on(setting, &[general, ("OTEL_SDK_DISABLED", "True")]));
        assert!(is_on(setting, &[("OTEL_SDK_DISABLED", "1")]));
    }

    #[test]
    fn variables_of_traces_win_and_batches_fit_the_queue() {
        let read = options(
            Some("http://c"),
            &[
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
                ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "5000"),
                ("OTEL_BSP_EXPORT_TIMEOUT", "30000"),
                ("OTEL_BSP_SCHEDULE_DELAY", "250"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
            ],
        );
        let expected = TraceOptions {
            endpoint: Some("http://c".parse().unwrap()),
            protocol: Protocol::Grpc,
            timeout: Duration::from_secs(5),
            queue: 100,
            batch: 100,
            delay: Duration::from_millis(250),
        };
        assert_eq!(read, Ok(Some(expected)));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_by_name() {
        for (variable, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "1048577"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1"),
        ] {
            let error = options(Some("http://c"), &[(variable, value)]).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("{variable}: '{value}' is not ")),
                "{text}"
            );
        }
    }
}
