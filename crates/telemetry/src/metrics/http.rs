//! Counts of HTTP requests. Labels use the program's route patterns, not the paths that clients
//! send; methods and statuses are few by nature.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::Counter;
use super::bounded::{Bounded, OTHER};
use super::page::Page;

/// Requests take from a millisecond to the longest that a server waits.
const BOUNDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Methods that are counted by name; a client may make others up.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// A request and how it was answered.
#[derive(Clone, Copy, Debug)]
pub struct HttpExchange<'a> {
    /// The route's pattern, such as `/api/v1/executions/{id}`; never the path itself.
    pub route: &'a str,
    /// The method.
    pub method: &'a str,
    /// The status of the answer.
    pub status: u16,
    /// How long the answer took.
    pub took: Duration,
    /// What ties the request to others.
    pub correlation_id: Option<&'a str>,
}

/// What is counted of all requests.
#[derive(Debug)]
pub(crate) struct Http {
    routes: Bounded<Route>,
}

#[derive(Debug)]
struct Route {
    duration: Histogram,
    /// How many requests of each method had each status.
    requests: Mutex<BTreeMap<(&'static str, u16), Counter>>,
}

impl Route {
    fn new() -> Self {
        Self {
            duration: Histogram::new(BOUNDS),
            requests: Mutex::default(),
        }
    }
}

impl Http {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            routes: Bounded::new(limit, Route::new),
        }
    }

    pub(crate) fn record(&self, exchange: &HttpExchange<'_>) {
        let route = self.routes.of(exchange.route);
        route.duration.observe(exchange.took.as_secs_f64());
        let known = METHODS.iter().find(|name| **name == exchange.method);
        let method = known.copied().unwrap_or(OTHER);
        let status = if (100..600).contains(&exchange.status) {
            exchange.status
        } else {
            0
        };
        let mut requests = route
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        requests.entry((method, status)).or_default().inc();
    }

    pub(super) fn show(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.routes.all();
        let counts: Vec<_> = all.iter().flat_map(counts_of).collect();
        page.family(
            "windlass_http_requests_total",
            "Requests that were answered.",
            counts.iter().map(|(labels, count)| (labels.clone(), count)),
        )?;
        page.family(
            "windlass_http_request_duration_seconds",
            "Time from a request to its answer.",
            all.iter()
                .map(|(route, series)| ([("route", &**route)], &series.duration)),
        )
    }
}

/// How many requests of a route had each method and status.
fn counts_of(
    (route, series): &(Box<str>, Arc<Route>),
) -> Vec<([(&'static str, String); 3], Counter)> {
    let requests = series
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let labelled = requests.iter().map(|((method, status), count)| {
        let labels = [
            ("route", route.to_string()),
            ("method", (*method).to_owned()),
            ("status", status.to_string()),
        ];
        (labels, count.clone())
    });
    labelled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_cannot_make_series() {
        let http = Http::new(2);
        for number in 0..500u16 {
            http.record(&HttpExchange {
                route: &format!("/r{number}"),
                method: &format!("M{number}"),
                status: 600 + number,
                took: Duration::from_millis(1),
                correlation_id: None,
            });
        }
        let counts = http.routes.all();
        let counts: Vec<_> = counts.iter().flat_map(counts_of).collect();
        assert_eq!(counts.len(), 3);
        let labels = |values: [&str; 3]| {
            let mut values = values.map(str::to_owned).into_iter();
            ["route", "method", "status"].map(|name| (name, values.next().unwrap()))
        };
        let (last, count) = counts
            .iter()
            .find(|(labels, _)| labels[0].1 == OTHER)
            .unwrap();
        assert_eq!(last, &labels([OTHER, OTHER, "0"]));
        assert_eq!(count.get(), 498);
    }
}
