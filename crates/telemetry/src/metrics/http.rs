//! Counts of HTTP requests. Labels use the program's route patterns, not the paths that clients
//! send; methods and statuses are few by nature.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::bounded::{Bounded, OTHER};
use super::cell::Histogram;
use super::page::Page;

/// Requests take from a millisecond to the longest that a server waits.
const BOUNDS: &[f64] = &[
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
pub(crate) struct Http {
    routes: Bounded<Route>,
}

struct Route {
    duration: Histogram,
    /// How many requests of each method had each status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
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
        route.duration.observe(exchange.took);
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
        *requests.entry((method, status)).or_default() += 1;
    }

    pub(crate) fn show(&self, page: &mut Page) {
        let all = self.routes.all();
        let name = "http_requests_total";
        page.family(name, "counter", "Requests that were answered.");
        for (route, series) in &all {
            let requests = series
                .requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for ((method, status), count) in &*requests {
                let status = status.to_string();
                let labels = [
                    ("route", &**route),
                    ("method", *method),
                    ("status", &*status),
                ];
                page.sample(name, &labels, count);
            }
        }
        let name = "http_request_duration_seconds";
        page.family(name, "histogram", "From a request to its answer.");
        for (route, series) in &all {
            page.histogram(name, &[("route", route)], &series.duration);
        }
    }
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
        let mut page = Page::default();
        http.show(&mut page);
        let page = page.finish();
        let series = page
            .lines()
            .filter(|line| line.starts_with("http_requests_total{"));
        assert_eq!(series.count(), 3);
        let last = "http_requests_total{route=\"other\",method=\"other\",status=\"0\"} 498";
        assert!(page.contains(last), "{page}");
    }
}
