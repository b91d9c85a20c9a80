//! Lists the files of the page, `web/` at the root of the repository, so that the binary has
//! them in it. What only tests and editors need is left out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What a browser loads.
const SERVED: [&str; 8] = ["html", "js", "css", "svg", "png", "ico", "woff2", "json"];

/// Folders that are not served.
const LEFT_OUT: [&str; 3] = ["tests", "types", "node_modules"];

/// Files for editors and checks alone.
const TOOLS: [&str; 4] = [
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "jsconfig.json",
];

fn main() -> io::Result<()> {
    let root = variable("CARGO_MANIFEST_DIR").join("../../web");
    let root = root.canonicalize()?;
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut text = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        let name = name.to_string_lossy().replace('\\', "/");
        let place = file.to_string_lossy();
        writeln!(text, "    ({name:?}, include_bytes!({place:?})),").map_err(io::Error::other)?;
    }
    text.push_str("]\n");
    fs::write(variable("OUT_DIR").join("page_files.rs"), text)
}

/// A variable that cargo sets.
fn variable(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(name).unwrap_or_default())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || LEFT_OUT.contains(&&*name) || TOOLS.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if let Some(ending) = path.extension()
            && SERVED.contains(&&*ending.to_string_lossy())
        {
            files.push(path);
        }
    }
    Ok(())
}
