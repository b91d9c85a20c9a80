//! `windlass completions`: a shell's completion script. Those of bash, zsh and fish ask the
//! program itself (`complete.rs`), so that they know workflows, runs, nodes and statuses.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::{Arguments, Completions};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

const BASH: &str = r#"# windlass completions bash
_windlass() {
    local IFS=$'\n' current="${COMP_WORDS[COMP_CWORD]}"
    local found
    found=$(windlass __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)
    COMPREPLY=($(compgen -W "$found" -- "$current"))
}
complete -o default -F _windlass windlass
"#;

const ZSH: &str = r#"#compdef windlass
_windlass() {
    local -a lines values shown
    lines=("${(@f)$(windlass __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    lines=(${lines:#})
    if (( ! ${#lines} )); then
        _files
        return
    fi
    values=("${(@)lines%%$'\t'*}")
    shown=("${(@)lines//$'\t'/  -- }")
    compadd -l -d shown -a values
}
if [ "$funcstack[1]" = "_windlass" ]; then
    _windlass "$@"
else
    compdef _windlass windlass
fi
"#;

const FISH: &str = r#"# windlass completions fish
complete -c windlass -a '(windlass __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
"#;

/// Prints the script.
pub(crate) fn run(settings: &Settings, arguments: &Completions) -> Result<Exit, Failure> {
    let script = match arguments.shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => FISH.to_owned(),
        shell => {
            let mut script = Vec::new();
            let mut command = Arguments::command();
            clap_complete::generate(shell, &mut command, "windlass", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    settings.output.data(&script)?;
    Ok(Exit::Done)
}
