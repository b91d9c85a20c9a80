//! A real mail server (aiosmtpd) on loopback, installed from PyPI into the target folder, with a
//! certificate of its own.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

const REQUIREMENTS: &str = include_str!("requirements.txt");
const SERVER: &str = include_str!("server.py");

/// Long enough for any machine; a message that does not come in it never does.
const PATIENCE: Duration = Duration::from_secs(30);

/// A mail server that ends with the test.
pub(crate) struct MailServer {
    child: Child,
    messages: Receiver<Value>,
    pub(crate) port: u16,
    pub(crate) certificate: PathBuf,
    _folder: tempfile::TempDir,
}

impl MailServer {
    /// `plain`, `starttls` or `tls`.
    pub(crate) fn start(mode: &str) -> Self {
        let python = python();
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let made = made.expect("a certificate");
        fs::write(at("cert.pem"), made.cert.pem()).expect("the certificate");
        fs::write(at("key.pem"), made.signing_key.serialize_pem()).expect("the key");
        fs::write(at("server.py"), SERVER).expect("the server");
        let mut child = Command::new(python)
            .arg(at("server.py"))
            .arg(mode)
            .args([at("cert.pem"), at("key.pem")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let port = lines.next().expect("a line").expect("a port");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).expect("JSON"));
            }
        });
        Self {
            child,
            messages,
            port: port.parse().expect("a port"),
            certificate: at("cert.pem"),
            _folder: folder,
        }
    }

    /// The next message that it took.
    pub(crate) fn message(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("a message")
    }

    /// Whether it took no other.
    pub(crate) fn is_quiet(&self) -> bool {
        self.messages.try_recv().is_err()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Python that has the server, installed once for all tests.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = root.join("aiosmtpd");
    let (python, stamp) = (folder.join("bin/python"), folder.join("installed.txt"));
    let lock = File::create(root.join("aiosmtpd.lock")).expect("a lock");
    lock.lock().expect("the lock");
    if fs::read_to_string(&stamp).is_ok_and(|had| had == REQUIREMENTS) && python.exists() {
        return python;
    }
    let run = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output();
        let output = output.expect("the tests of email.send need python3 with venv");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "aiosmtpd cannot be installed: {said}"
        );
    };
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder));
    let wanted = root.join("aiosmtpd-requirements.txt");
    fs::write(&wanted, REQUIREMENTS).expect("the list");
    run(Command::new(folder.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(&wanted));
    fs::write(&stamp, REQUIREMENTS).expect("the mark");
    python
}
