//! Removes secrets from what is recorded: from texts, and from JSON, of which everything else
//! stays byte for byte.

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde::de::IgnoredAny;
use serde_json::Value;

/// What stands where a secret was.
pub(crate) const REDACTED: &str = "[redacted]";

/// Shorter secrets stay in keys: a password such as `name` must not rename a key that
/// expressions look up.
const LEAST_IN_KEYS: usize = 8;

/// Removes every secret from a JSON text. It stays JSON: a number or truth value that says
/// a secret becomes the text that stands for it.
pub(crate) fn scrub(text: &str, secrets: &[String]) -> String {
    let written = format!("\"{REDACTED}\"");
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        // Not JSON: nothing of it can be trusted to be clean.
        return written;
    }
    let needles = Needles::new(secrets);
    let mut clean = Cleaner {
        in_keys: needles.long(),
        needles,
        changed: Vec::new(),
        clean: String::with_capacity(text.len()),
    };
    clean.walk(text);
    match serde_json::from_str::<IgnoredAny>(&clean.clean) {
        Ok(_) => clean.clean,
        Err(_) => written,
    }
}

/// Removes every secret from plain text.
pub(crate) fn scrub_text(text: &str, secrets: &[String]) -> String {
    Needles::new(secrets).remove(text)
}

/// Goes through a JSON text, token by token.
struct Cleaner {
    needles: Needles,
    in_keys: Needles,
    /// Of each object around: the keys that have something removed.
    changed: Vec<Vec<String>>,
    clean: String,
}

impl Cleaner {
    fn walk(&mut self, text: &str) {
        let mut rest = text;
        while let Some(first) = rest.bytes().next() {
            let length = match first {
                b'"' => string_length(rest),
                b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => 1,
                _ => rest
                    .find([',', '}', ']', ' ', '\n', '\r', '\t'])
                    .unwrap_or(rest.len()),
            };
            let (token, after) = rest.split_at(length);
            match first {
                b'"' if after.trim_ascii_start().starts_with(':') => self.key(token),
                b'"' => self.string(token),
                b'{' => {
                    self.changed.push(Vec::new());
                    self.clean.push('{');
                }
                b'}' => {
                    self.changed.pop();
                    self.clean.push('}');
                }
                b't' | b'f' | b'-' | b'0'..=b'9' => self.scalar(token),
                _ => self.clean.push_str(token),
            }
            rest = after;
        }
    }

    fn string(&mut self, token: &str) {
        match replaced(token, &self.needles) {
            Some(clean) => self.clean.push_str(&quoted(&clean)),
            None => self.clean.push_str(token),
        }
    }

    /// Two keys must not become one.
    fn key(&mut self, token: &str) {
        let Some(mut clean) = replaced(token, &self.in_keys) else {
            self.clean.push_str(token);
            return;
        };
        if let Some(others) = self.changed.last_mut() {
            let same = others.iter().filter(|other| **other == clean).count();
            others.push(clean.clone());
            if same > 0 {
                clean.push_str(&format!(" {}", same + 1));
            }
        }
        self.clean.push_str(&quoted(&clean));
    }

    fn scalar(&mut self, token: &str) {
        let value: Value = serde_json::from_str(token).unwrap_or_default();
        let plain = value.to_string();
        let says = |needle: &String| needle == token || *needle == plain;
        match self.needles.0.iter().any(says) {
            true => self.clean.push_str(&quoted(REDACTED)),
            false => self.clean.push_str(token),
        }
    }
}

/// The text of a string's token without secrets, if there were any in it.
fn replaced(token: &str, needles: &Needles) -> Option<String> {
    let text: String = serde_json::from_str(token).ok()?;
    let clean = needles.remove(&text);
    (clean != text).then_some(clean)
}

/// How long the string is that the text begins with, quotes and all.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// What to look for: each secret as it is; as programs print it inside JSON, once and
/// twice escaped, with letters beyond ASCII as they are or as `\u` escapes; as it goes into
/// addresses and headers; as hexadecimal digits; and in base64, alone and in the middle of
/// something else, such as the name and password of basic authentication.
struct Needles(Vec<String>);

/// Shorter secrets are not looked for as hexadecimal digits: too many numbers look the same.
const LEAST_IN_HEX: usize = 3;

/// Fewer letters of base64 than this say too little to be taken for a part of a secret.
const LEAST_IN_BASE64: usize = 4;

impl Needles {
    fn new(secrets: &[String]) -> Self {
        let mut needles = Vec::new();
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            let once = escaped(secret);
            let forms = [
                secret.clone(),
                ascii(&once),
                ascii(&escaped(&once)),
                escaped(&once),
                once,
                STANDARD_NO_PAD.encode(secret),
                URL_SAFE_NO_PAD.encode(secret),
            ];
            needles.extend(forms);
            for (kept, lower) in KEPT.iter().flat_map(|kept| [(kept, false), (kept, true)]) {
                let written = percent(secret, kept, lower);
                needles.push(written.replace("%20", "+"));
                needles.push(written);
            }
            needles.extend(within_base64(secret));
            if secret.len() >= LEAST_IN_HEX {
                needles.push(hex::encode(secret));
                needles.push(hex::encode_upper(secret));
            }
        }
        // The longest first: a part of one form must not hide the rest of another.
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
        Self(needles)
    }

    fn long(&self) -> Self {
        let long = self.0.iter().filter(|needle| needle.len() >= LEAST_IN_KEYS);
        Self(long.cloned().collect())
    }

    fn remove(&self, text: &str) -> String {
        // What stands for a secret is no place to look for another.
        let parts = text.split(REDACTED);
        let clean = parts.map(|part| without(part, &self.0));
        clean.collect::<Vec<_>>().join(REDACTED)
    }
}

/// Finds secrets in bytes that come one after the other, in any form that is redacted. Short
/// ones are not looked for: they stand in any large file by chance.
pub(crate) struct SecretFinder {
    needles: AhoCorasick,
    longest: usize,
    /// The end of what came before: a secret may begin there.
    tail: Vec<u8>,
}

impl SecretFinder {
    /// Nothing if there is nothing to look for.
    pub(crate) fn new(secrets: &[String]) -> Option<Self> {
        let Needles(needles) = Needles::new(secrets).long();
        Some(Self {
            longest: needles.first()?.len(),
            needles: AhoCorasick::new(&needles).ok()?,
            tail: Vec::new(),
        })
    }

    /// Whether a secret ends in these bytes.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> bool {
        let keep = self.longest - 1;
        self.tail.extend_from_slice(&bytes[..bytes.len().min(keep)]);
        let found = self.needles.is_match(&self.tail) || self.needles.is_match(bytes);
        match bytes.len().checked_sub(keep) {
            Some(start) => {
                self.tail.clear();
                self.tail.extend_from_slice(&bytes[start..]);
            }
            None => drop(self.tail.drain(..self.tail.len().saturating_sub(keep))),
        }
        found
    }
}

fn without(text: &str, needles: &[String]) -> String {
    let Some((at, needle)) = needles
        .iter()
        .enumerate()
        .find(|(_, needle)| text.contains(needle.as_str()))
    else {
        return text.to_owned();
    };
    let parts = text.split(needle.as_str());
    let clean = parts.map(|part| without(part, &needles[at + 1..]));
    clean.collect::<Vec<_>>().join(REDACTED)
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// The inside of a text's JSON form.
fn escaped(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// Letters beyond ASCII as `\u` escapes, as some programs write them.
fn ascii(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() {
            written.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                written.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    written
}

/// As it stands in addresses: RFC 3986, section 2.1.
/// What the usual ways to percent-encode leave as it is, besides letters and digits: JavaScript's
/// two, RFC 3986, forms, then the parts of an address as browsers and our own client write them
/// (query, path twice, user, fragment).
const KEPT: [&str; 9] = [
    "-_.!~*'()",
    "-_.!~*'();/?:@&=+$,#",
    "-_.~",
    "*-._",
    "!$%&()*+,-./:;=?@[\\]^_`{|}~",
    "!$%&'()*+,-./:;=@[\\]^_|~",
    "!$%&'()*+,-./:;=@[\\]_|~",
    "!$%&'()*+,-._~",
    "!#$%&'()*+,-./:;=?@[\\]^_{|}~",
];

fn percent(text: &str, kept: &str, lower: bool) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        let letter = char::from(byte);
        if letter.is_ascii_alphanumeric() || kept.contains(letter) {
            written.push(letter);
        } else if lower {
            written.push_str(&format!("%{byte:02x}"));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}

/// The letters of base64 that a secret alone decides, after none, one or two other bytes of a
/// group of three, whatever comes before and after it. What is left of it beside them is a
/// part of its first byte and of its last.
fn within_base64(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend(secret.as_bytes());
        // A letter has six bits, a byte eight: the first letter without a bit of what comes
        // before, and the last without one of what follows.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let letters = alphabet.encode(&bytes);
            forms.extend(letters.get(first..last).map(str::to_owned));
        }
    }
    forms.retain(|form| form.len() >= LEAST_IN_BASE64);
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str, secrets: &[&str]) -> String {
        let secrets: Vec<String> = secrets.iter().map(|&it| it.to_owned()).collect();
        scrub(text, &secrets)
    }

    #[test]
    fn a_secret_is_found_wherever_the_bytes_are_cut() {
        let secrets = ["hunter22-hunter22".to_owned(), "abc".to_owned()];
        let text = b"some bytes abc \xff before hunter22-hunter22 and after";
        for size in 1..text.len() {
            let mut finder = SecretFinder::new(&secrets).expect("something to find");
            let found = text.chunks(size).any(|part| finder.find(part));
            assert!(found, "in parts of {size}");
        }
        for other in [&b"hunter22-hunter2"[..], b"abc abc", b""] {
            let mut finder = SecretFinder::new(&secrets).expect("something to find");
            assert!(!other.chunks(3).any(|part| finder.find(part)));
        }
        assert!(SecretFinder::new(&["abc".to_owned()]).is_none());
        assert!(SecretFinder::new(&[]).is_none());
    }

    #[test]
    fn what_is_no_secret_stays_as_it_was_written() {
        let text = r#"{ "s": "hunter22", "n": 123456789012345678901234567890, "g": 1.50,
                       "e": 1E3, "u": "\u0041\/", "a": [ -0, true, null, "" ], "s": 2 }"#;
        let expected = text.replace("hunter22", REDACTED);
        assert_eq!(clean(text, &["hunter22"]), expected);
        assert_eq!(clean(text, &["absent"]), text);
        assert_eq!(clean("no json", &["x"]), "\"[redacted]\"");
    }

    #[test]
    fn a_secret_is_found_as_parts_of_an_address_write_it() {
        for (secret, form) in [
            (r#"p|w[x]^y z"q"#, "http://host/x?k=p|w[x]^y%20z%22q"),
            (r#"p|w[x]^y z"q"#, "http://host/p|w[x]^y%20z%22q/end"),
            ("a<b>c`d{e}", "http://host/?k=a%3Cb%3Ec`d{e}"),
            ("a<b>c`d{e}", "http://host/a%3Cb%3Ec%60d%7Be%7D"),
            ("it's(1)*!~", "http://host/?k=it%27s(1)*!~"),
            ("us:er@pa/ss", "http://us%3Aer%40pa%2Fss@host/"),
            ("hunter22!sup/er+secret", "x hunter22%21sup%2fer%2bsecret"),
        ] {
            let text = serde_json::Value::from(form).to_string();
            let cleaned = clean(&text, &[secret]);
            assert!(cleaned.contains(REDACTED), "{secret}: {cleaned}");
        }
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let secret = "pä ss+w/rd=\"";
        for form in [
            r#""pä ss+w/rd=\"""#,
            r#""p\u00e4 ss+w\/rd=\"""#,
            r#""k=p%C3%A4%20ss%2Bw%2Frd%3D%22&""#,
            r#""k=p%c3%a4%20ss%2bw%2frd%3d%22""#,
            r#""k=p%C3%A4+ss%2Bw%2Frd%3D%22""#,
            r#""Basic cMOkIHNzK3cvcmQ9Ig==""#,
            r#""{\"a\":\"pä ss+w/rd=\\\"\"}""#,
        ] {
            let text = format!(r#"[1.0, {{"k": {form}}}]"#);
            let cleaned = clean(&text, &[secret]);
            assert!(cleaned.contains(REDACTED), "{form}: {cleaned}");
            assert!(!cleaned.contains("rd"), "{form}: {cleaned}");
            assert!(cleaned.starts_with("[1.0, "), "{cleaned}");
        }
    }

    #[test]
    fn a_secret_is_found_inside_of_other_things_in_base64_and_hex() {
        for secret in [
            "pass",
            "s3cr3t",
            "hunter22",
            "\u{3ff}>>?~~\u{3ff}",
            "a longer one, with more",
        ] {
            for user in ["", "u", "me", "bob", "user@example"] {
                for after in ["", "\n", "!!", "and more"] {
                    let whole = format!("{user}:{secret}{after}");
                    for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                        let written = alphabet.encode(&whole);
                        let text = format!("\"Basic {written}==\"");
                        let cleaned = clean(&text, &[secret]);
                        assert!(cleaned.contains(REDACTED), "{whole}: {cleaned}");
                        // At most one letter on each side has bits of the secret.
                        let bits = secret.len() * 8;
                        let left = cleaned.replace(REDACTED, "").len();
                        assert!(left + bits / 6 <= text.len() + 1, "{whole}: {cleaned}");
                    }
                    for hex in [|byte| format!("{byte:02x}"), |byte| format!("{byte:02X}")] {
                        let written: String = whole.bytes().map(hex).collect();
                        let cleaned = clean(&format!("\"{written}\""), &[secret]);
                        let rest = (whole.len() - secret.len()) * 2;
                        assert_eq!(cleaned.len(), rest + REDACTED.len() + 2, "{cleaned}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_only_resembles_a_short_secret_stays() {
        for text in [r#""YWJj ZGVm 6162 616263""#, r#""3132""#] {
            assert_eq!(clean(text, &["ab", "1"]), text.replace('1', REDACTED));
        }
    }

    #[test]
    fn keys_are_cleaned_and_stay_apart() {
        let text = r#"{"x-longsecret-1": 1, "x-longsecret-2": 2, "o": {"longsecret-1": 3}}"#;
        assert_eq!(
            clean(text, &["longsecret-1", "longsecret-2"]),
            r#"{"x-[redacted]": 1, "x-[redacted] 2": 2, "o": {"[redacted]": 3}}"#
        );
        // A short secret would rename a key that expressions look up.
        assert_eq!(
            clean(r#"{"name": "name"}"#, &["name"]),
            r#"{"name": "[redacted]"}"#
        );
    }

    #[test]
    fn what_stands_for_a_secret_is_left_alone() {
        assert_eq!(
            clean(r#"["[redacted]", "banana"]"#, &["a", "red"]),
            r#"["[redacted]", "b[redacted]n[redacted]n[redacted]"]"#
        );
        let secrets = ["a".to_owned(), "red".to_owned()];
        assert_eq!(
            scrub_text("red [redacted]", &secrets),
            "[redacted] [redacted]"
        );
    }

    #[test]
    fn scalars_that_say_a_secret_are_replaced() {
        assert_eq!(
            clean("[5432, 15432, 54320, true, 5432.5]", &["5432", "true"]),
            r#"["[redacted]", 15432, 54320, "[redacted]", 5432.5]"#
        );
        assert_eq!(clean("5432", &["5432"]), r#""[redacted]""#);
    }
}
