//! A recorded history as a text file: the definitions and values that a log refers to, its
//! records as they are stored, and what each led to. It must not know what any of it means.
//!
//! ```text
//! # what it shows, and where it was recorded from
//! run ID
//! graph DIGEST TEXT            a definition, under the digest by which the log names it
//! blob DIGEST TEXT             a value that is too large for a record
//! record VERSION BODY          an envelope's version and its body: the stored bytes
//!   name: text                 what the record changed in the state
//! end DIGEST                   of the stored bytes of all records together
//!   name: text                 the whole state
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use windlass_core::{Digest, RunId};
use windlass_store::{Envelope, EnvelopeKind};

/// A recorded history.
#[derive(Debug)]
pub struct RecordedHistory {
    /// The file's name, without its ending.
    pub name: String,
    /// What it shows.
    pub comments: Vec<String>,
    pub run: RunId,
    pub graphs: BTreeMap<Digest, String>,
    pub blobs: BTreeMap<Digest, String>,
    pub records: Vec<HistoryRecord>,
    /// The state after the last record.
    pub end: Vec<String>,
}

/// A record as it is stored, and what it led to.
#[derive(Debug)]
pub struct HistoryRecord {
    pub version: u16,
    pub body: String,
    /// What it changed in the state.
    pub changes: Vec<String>,
}

impl HistoryRecord {
    /// The stored bytes.
    pub fn bytes(&self) -> Vec<u8> {
        Envelope::encode(EnvelopeKind::Record, self.version, self.body.as_bytes())
    }
}

impl RecordedHistory {
    /// Reads a file's text.
    pub fn read(name: &str, text: &str) -> Self {
        let mut lines = text.lines().enumerate().peekable();
        let mut history = Self {
            name: name.to_owned(),
            comments: Vec::new(),
            run: RunId::from_bytes([0; 16]),
            graphs: BTreeMap::new(),
            blobs: BTreeMap::new(),
            records: Vec::new(),
            end: Vec::new(),
        };
        while let Some((number, line)) = lines.next() {
            let fault = || format!("{name}.txt, line {}: {line}", number + 1);
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut led_to = Vec::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("  ")) {
                led_to.push(line.to_owned());
            }
            match word {
                "#" => history.comments.push(rest.to_owned()),
                "run" => history.run = rest.parse().unwrap_or_else(|_| panic!("{}", fault())),
                "graph" => history.graphs.extend([named(rest, &fault)]),
                "blob" => history.blobs.extend([named(rest, &fault)]),
                "record" => {
                    let (version, body) = rest.split_once(' ').unwrap_or_default();
                    history.records.push(HistoryRecord {
                        version: version.parse().unwrap_or_else(|_| panic!("{}", fault())),
                        body: body.to_owned(),
                        changes: led_to,
                    });
                }
                "end" => {
                    let digest = history.digest().to_string();
                    assert_eq!(rest, digest, "{name}.txt: a record was changed");
                    history.end = led_to;
                }
                _ => panic!("{}", fault()),
            }
        }
        history
    }

    /// The digest of the whole log: states do not depend on every byte of it.
    fn digest(&self) -> Digest {
        let bytes: Vec<u8> = self.records.iter().flat_map(HistoryRecord::bytes).collect();
        Digest::of(&bytes)
    }

    /// The file's text.
    pub fn write(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        lines.extend(self.comments.iter().map(|line| format!("# {line}")));
        lines.push(format!("run {}", self.run));
        let graphs = self.graphs.iter();
        lines.extend(graphs.map(|(digest, text)| format!("graph {digest} {text}")));
        let blobs = self.blobs.iter();
        lines.extend(blobs.map(|(digest, text)| format!("blob {digest} {text}")));
        for record in &self.records {
            lines.push(format!("record {} {}", record.version, record.body));
            lines.extend(record.changes.iter().cloned());
        }
        lines.push(format!("end {}", self.digest()));
        lines.extend(self.end.iter().cloned());
        assert!(
            lines.iter().all(|line| !line.contains('\n')),
            "{}: one line each",
            self.name
        );
        lines.join("\n") + "\n"
    }
}

/// `DIGEST TEXT`, where the digest is the text's.
fn named(rest: &str, fault: &dyn Fn() -> String) -> (Digest, String) {
    let (digest, text) = rest.split_once(' ').unwrap_or_default();
    let found = Digest::of(text.as_bytes());
    assert_eq!(digest, found.to_string(), "the digest in {}", fault());
    (found, text.to_owned())
}

/// Where the histories are.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../core/tests/histories")
}

/// All recorded histories, by name.
pub fn all() -> Vec<RecordedHistory> {
    let files = std::fs::read_dir(folder()).expect("the folder of histories");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str());
        let text = std::fs::read_to_string(&path).expect("a history");
        RecordedHistory::read(name.expect("a name"), &text)
    };
    paths.into_iter().map(read).collect()
}
