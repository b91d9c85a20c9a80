//! Opens the page in a browser, where there is one to open.

use std::process::{Command, Stdio};

use crate::output::Output;

/// Opens an address in the browser of the person at the terminal. Nothing happens where there
/// is none: the address is printed as well.
pub(super) fn open(output: &Output, url: &str) {
    if !output.terminal {
        return;
    }
    let Some(program) = program(|name| std::env::var_os(name).is_some_and(|it| !it.is_empty()))
    else {
        return;
    };
    let opened = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut child) = opened {
        // Waited for, so that it does not stay behind as a zombie.
        std::thread::spawn(move || child.wait());
    }
}

/// The program that opens addresses, if there is a screen to show them on.
fn program(is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        Some("open")
    } else if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        Some("xdg-open")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn a_browser_needs_a_screen() {
        assert_eq!(program(|_| false), None);
        assert_eq!(program(|name| name == "WAYLAND_DISPLAY"), Some("xdg-open"));
    }
}
