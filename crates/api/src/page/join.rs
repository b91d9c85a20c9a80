//! Joins the page's modules into one file, so that a browser asks once and has all views, whatever
//! becomes of the server. Each module is a function that is called when it is first needed.
//!
//! Of JavaScript it knows how the formatter writes imports and exports, and nothing else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What stands before the modules. A name with `$` is no module's own.
const BEGIN: &str = "const $made = {};\n\
     const $need = (name) => ($made[name] ??= $modules[name]());\n\
     const $later = async (name) => $need(name);\n\
     const $modules = {\n";

/// The module with which every page begins, and all others, by their names.
pub(super) fn modules(entry: &str, modules: &BTreeMap<&str, &str>) -> String {
    let mut text = BEGIN.to_owned();
    for (name, module) in modules {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\"{name}\": () => {{");
        function(name, module, &mut text);
        text.push_str("},\n");
    }
    let _ = writeln!(text, "}};\n$need(\"{entry}\");");
    text
}

/// The body of a module's function, which returns what the module exports.
fn function(name: &str, module: &str, text: &mut String) {
    let mut exports = Vec::new();
    let mut lines = module.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("import ") {
            let mut import = line.to_owned();
            while !import.ends_with(';') {
                import.push_str(lines.next().expect("an import ends with a semicolon"));
            }
            needed(name, &import, text);
        } else if let Some(list) = line.strip_prefix("export {") {
            let list = list.trim_end_matches("};").split(',').map(str::trim);
            exports.extend(list.map(str::to_owned));
        } else if let Some(declared) = line.strip_prefix("export ") {
            exports.push(declared_name(declared).to_owned());
            code(name, declared, text);
        } else {
            code(name, line, text);
        }
    }
    let _ = writeln!(text, "return {{ {} }};", exports.join(", "));
}

/// `import { a, b as c } from './x.js';`, or without names, as a call.
fn needed(module: &str, import: &str, text: &mut String) {
    let path = import.split('\'').nth(1).expect("an import names its file");
    let path = resolved(module, path);
    let _ = match import
        .split_once('{')
        .and_then(|(_, it)| it.split_once('}'))
    {
        Some((names, _)) => {
            let names = names.replace(" as ", ": ");
            writeln!(text, "const {{{names}}} = $need(\"{path}\");")
        }
        None => writeln!(text, "$need(\"{path}\");"),
    };
}

/// A line in which modules may be loaded later. In comments, where it names types, it does no harm.
fn code(module: &str, line: &str, text: &mut String) {
    let mut parts = line.split("import('");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (path, rest) = part.split_once('\'').expect("a path ends with a quote");
        let _ = write!(text, "$later('{}'{rest}", resolved(module, path));
    }
    text.push('\n');
}

/// The name in `async function name(`, `class Name extends`, `const NAME =`.
fn declared_name(declared: &str) -> &str {
    let words = declared.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    let mut names = words.filter(|word| !["async", "function", "class", "const"].contains(word));
    names.next().expect("an export has a name")
}

/// The name of a file by its path from a module.
fn resolved(module: &str, path: &str) -> String {
    let mut parts: Vec<_> = module.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(module: &str, expected: &str) {
        let mut text = String::new();
        function("views/run.js", module, &mut text);
        assert_eq!(text, expected);
    }

    #[test]
    fn imports_become_calls_and_exports_the_result() {
        check(
            "import '../ui/bits.js';\nimport { a, b as c } from './part.js';\nimport {\n  d,\n} from '../lib/dom.js';",
            "$need(\"ui/bits.js\");\nconst { a, b: c } = $need(\"views/part.js\");\n\
             const {  d,} = $need(\"lib/dom.js\");\nreturn {  };\n",
        );
        check(
            "export { A, B };\nexport const C = 1;\nexport async function d(x) {}\nexport class E extends F {}",
            "const C = 1;\nasync function d(x) {}\nclass E extends F {}\nreturn { A, B, C, d, E };\n",
        );
        check(
            "const later = () => import('./later.js');\n/** @type {import('../lib/dom.js').Child} */",
            "const later = () => $later('views/later.js');\n\
             /** @type {$later('lib/dom.js').Child} */\nreturn {  };\n",
        );
    }

    #[test]
    fn the_entry_is_called_after_all_modules_are_there() {
        let files = BTreeMap::from([("app.js", "import './a.js';"), ("a.js", "")]);
        let text = modules("app.js", &files);
        assert!(text.starts_with(BEGIN), "{text}");
        assert!(text.ends_with("},\n};\n$need(\"app.js\");\n"), "{text}");
    }
}
