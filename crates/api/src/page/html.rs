//! HTML written piece by piece: what comes from the program is markup, everything else text.
//! Text that would be invisible or turn the direction of reading is shown by its numbers.

use windlass_core::printable::{cut, is_unprintable};

/// How much of one text is shown.
const MOST_BYTES: usize = 2000;

/// HTML in the making.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Adds markup, which only the program writes.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text, fit for an element and for an attribute in double quotes; one that is too
    /// long is cut.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for letter in cut(text, MOST_BYTES).chars() {
            self.letter(letter);
        }
        self
    }

    /// Adds ` name="value"`.
    pub(super) fn attribute(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.markup(" ").markup(name).markup("=\"");
        self.text(value).markup("\"")
    }

    /// Adds a link to an address of the page: a prefix, and an id that is made fit for a path.
    pub(super) fn link(&mut self, prefix: &'static str, id: &str, text: &str) -> &mut Self {
        let id: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
        // A form's encoding of a space means a plus in a path.
        let id = id.replace('+', "%20");
        self.markup("<a href=\"").markup(prefix).markup_of(&id);
        self.markup("\">").text(text).markup("</a>")
    }

    /// Adds a cell of a table.
    pub(super) fn cell(&mut self, text: &str) -> &mut Self {
        self.markup("<td>").text(text).markup("</td>")
    }

    /// Adds JSON without spaces for the page's modules: the browser neither shows nor executes it.
    /// What could end the element or turn the direction of reading is escaped as JSON does it.
    pub(super) fn answer(&mut self, name: &'static str, json: &str) -> &mut Self {
        self.markup("<script type=\"application/json\" data-answer=\"")
            .markup(name)
            .markup("\">");
        let mut rest = json;
        while let Some(place) = rest.find(is_escaped) {
            let (before, after) = rest.split_at(place);
            self.0.push_str(before);
            let mut letters = after.chars();
            let letter = letters.next().unwrap_or_default();
            for unit in letter.encode_utf16(&mut [0; 2]) {
                self.0.push_str(&format!("\\u{unit:04x}"));
            }
            rest = letters.as_str();
        }
        self.0.push_str(rest);
        self.markup("</script>")
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Adds what consists of letters, digits and signs of percent encoding.
    fn markup_of(&mut self, encoded: &str) -> &mut Self {
        self.0.push_str(encoded);
        self
    }

    fn letter(&mut self, letter: char) {
        match letter {
            '&' => self.0.push_str("&amp;"),
            '<' => self.0.push_str("&lt;"),
            '>' => self.0.push_str("&gt;"),
            '"' => self.0.push_str("&quot;"),
            '\'' => self.0.push_str("&#39;"),
            letter if is_hidden(letter) => {
                self.0
                    .push_str(&format!("\\u{{{:04x}}}", u32::from(letter)));
            }
            letter => self.0.push(letter),
        }
    }
}

/// Whether a character of JSON is written by its number: it occurs in strings alone.
fn is_escaped(letter: char) -> bool {
    letter == '<' || (!letter.is_ascii() && is_hidden(letter))
}

/// Whether a reader would not see a character, or see others in another order.
fn is_hidden(letter: char) -> bool {
    is_unprintable(letter)
        || matches!(letter,
            // Soft hyphens, joiners, fillers and selectors, which take no room of their own.
            '\u{00AD}' | '\u{034F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200C}' | '\u{200D}' | '\u{2065}' | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}' | '\u{FFA0}' | '\u{E0100}'..='\u{E01EF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut html = Text::default();
        html.text(text);
        assert_eq!(html.as_str(), expected);
    }

    #[test]
    fn text_stays_text() {
        check("a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;");
        check(
            "x\u{202e}y\u{200b}z\u{200d}\n",
            "x\\u{202e}y\\u{200b}z\\u{200d}\\u{000a}",
        );
        check("naïve 漢字 🚀", "naïve 漢字 🚀");
        let mut html = Text::default();
        html.text(&"ä".repeat(1_000_000));
        assert!(html.as_str().len() <= MOST_BYTES && html.as_str().ends_with('…'));
    }

    #[test]
    fn links_and_attributes_keep_hostile_ids_in_their_place() {
        let mut html = Text::default();
        html.link("/runs/", "a/../b\"><script> ?#", "x<y");
        let expected = "<a href=\"/runs/a%2F..%2Fb%22%3E%3Cscript%3E%20%3F%23\">x&lt;y</a>";
        assert_eq!(html.as_str(), expected);
        let mut html = Text::default();
        html.attribute("data-run", "\" onclick=\"");
        assert_eq!(html.as_str(), " data-run=\"&quot; onclick=&quot;\"");
    }

    #[test]
    fn an_answer_cannot_end_its_element_and_means_the_same() {
        let value = serde_json::json!({ "a": "</script><!--\u{202e}\u{e0100}é", "b": [1, null] });
        let mut html = Text::default();
        html.answer("list", &value.to_string());
        let inner = html.as_str();
        let inner = inner.strip_prefix("<script type=\"application/json\" data-answer=\"list\">");
        let inner = inner.and_then(|text| text.strip_suffix("</script>"));
        let inner = inner.expect("one element");
        assert!(!inner.contains(['<', '\u{202e}', '\u{e0100}']), "{inner}");
        let read: serde_json::Value = serde_json::from_str(inner).expect("JSON");
        assert_eq!(read, value);
    }
}
