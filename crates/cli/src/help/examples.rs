//! Three lines for each command, each with what it does.

/// A command and its examples.
type Examples = (&'static str, &'static [(&'static str, &'static str)]);

/// By command.
pub(super) const EXAMPLES: &[Examples] = &[
    (
        "run",
        &[
            ("windlass run order.json", "to its end, with live progress"),
            (
                r#"windlass run order.json --trigger '{"n": 1}'"#,
                "with a trigger",
            ),
            (
                "windlass run order.json --set vars.region=us --detach",
                "changed, in the background",
            ),
        ],
    ),
    (
        "start",
        &[
            ("windlass start order", "the newest version; prints the id"),
            (
                "windlass start order --trigger @order.json --wait",
                "and waits for its end",
            ),
            ("windlass start order --label team=sales", "with a label"),
        ],
    ),
    (
        "serve",
        &[
            ("windlass serve", "on http://127.0.0.1:7400"),
            (
                "windlass serve --listen 0.0.0.0:7400 --auth-keys keys.json",
                "for others, with tokens",
            ),
            (
                "windlass serve --backend postgres --postgres-url postgres://db/windlass",
                "with a database that servers share",
            ),
            (
                "windlass serve --backend nats --nats-url nats://n1:4222 --postgres-url postgres://db/windlass",
                "with NATS for the log",
            ),
        ],
    ),
    (
        "dev",
        &[
            ("windlass dev", "and opens the page"),
            ("windlass dev --demo", "with runs to explore"),
            (
                "windlass dev --no-open --listen 127.0.0.1:8080",
                "on another port",
            ),
        ],
    ),
    (
        "validate",
        &[
            ("windlass validate order.json", "every problem of a file"),
            ("windlass validate orders.yaml returns.yaml", "of several"),
            ("windlass validate order.json --json", "for a program"),
        ],
    ),
    (
        "simulate",
        &[
            ("windlass simulate order.yaml", "which endings are possible"),
            (
                "windlass simulate order.yaml --fail charge=10%:DECLINED",
                "if a node fails at times",
            ),
            (
                "windlass simulate order.yaml --seed 7",
                "what happens in one of them",
            ),
        ],
    ),
    (
        "graph",
        &[
            ("windlass graph order.json", "in the terminal"),
            (
                "windlass graph @last --format svg > run.svg",
                "of a run, with statuses, as a picture",
            ),
            (
                "windlass graph order.json --format mermaid --expand",
                "everything, for Markdown",
            ),
        ],
    ),
    (
        "publish",
        &[
            ("windlass publish order.json", "as a new version"),
            (
                "windlass publish order.json --plan",
                "what it would do to live runs",
            ),
            (
                "windlass publish order.json --server http://127.0.0.1:7400",
                "on a server",
            ),
        ],
    ),
    (
        "workflows",
        &[
            ("windlass workflows", "all of them"),
            ("windlass workflows versions order", "the versions of one"),
            ("windlass workflows show order --version 2", "a definition"),
        ],
    ),
    (
        "diff",
        &[
            ("windlass diff order 1 2", "what changed, value by value"),
            ("windlass diff order v1 v3 --json", "for a program"),
            ("windlass diff order 2 1", "the other way round"),
        ],
    ),
    (
        "schema",
        &[
            ("windlass schema", "print it"),
            ("windlass schema > windlass.schema.json", "for an editor"),
            ("windlass schema --json", "the same"),
        ],
    ),
    (
        "actions",
        &[
            ("windlass actions", "all of them"),
            ("windlass actions http.request", "one, with its parameters"),
            (
                "windlass actions --server http://127.0.0.1:7400",
                "those of a server and its workers",
            ),
        ],
    ),
    (
        "runs",
        &[
            ("windlass runs", "the newest"),
            (
                "windlass runs --status failed --since 1h",
                "what failed in the last hour",
            ),
            (
                "windlass runs --workflow order --label team=sales",
                "of one workflow, by label",
            ),
        ],
    ),
    (
        "show",
        &[
            ("windlass show @last", "the newest run, node by node"),
            (
                "windlass show @last --nodes charge-all",
                "what is inside a loop",
            ),
            (
                "windlass show @last --include actions --json",
                "with every attempt",
            ),
        ],
    ),
    (
        "watch",
        &[
            ("windlass watch @last", "until it ends"),
            ("windlass watch @last --wait 60", "at most a minute"),
            (
                "windlass watch 01a1e13b --server http://127.0.0.1:7400",
                "of a server",
            ),
        ],
    ),
    (
        "result",
        &[
            ("windlass result @last", "the newest run's output"),
            (
                "windlass result @last:order",
                "of the newest run of a workflow",
            ),
            ("windlass result @last --json", "for a program"),
        ],
    ),
    (
        "events",
        &[
            ("windlass events @last", "what happened, in order"),
            ("windlass events @last --after 10", "from an event on"),
            ("windlass events @last --json", "one event a line"),
        ],
    ),
    (
        "why",
        &[
            (
                "windlass why @last",
                "what the run waits for, or why it failed",
            ),
            ("windlass why @last charge", "one node"),
            (
                "windlass why @last 'charge-all[17]/charge'",
                "one inside a loop",
            ),
        ],
    ),
    (
        "cancel",
        &[
            ("windlass cancel @last", "one run"),
            (
                "windlass cancel @last --compensate --reason 'wrong file'",
                "and undo what succeeded",
            ),
            (
                "windlass cancel --filter workflow=order --dry-run",
                "many: only say which",
            ),
        ],
    ),
    (
        "pause",
        &[
            ("windlass pause @last", "start no more nodes"),
            (
                "windlass pause @last --reason 'the bank is down'",
                "recorded with a reason",
            ),
            (
                "windlass pause --filter workflow=order",
                "all runs of a workflow",
            ),
        ],
    ),
    (
        "resume",
        &[
            ("windlass resume @last", "carry a run on"),
            ("windlass resume @last --wait 60", "at most a minute"),
            (
                "windlass resume --filter workflow=order",
                "all runs of a workflow",
            ),
        ],
    ),
    (
        "reattempt",
        &[
            ("windlass reattempt @last", "everything that failed"),
            ("windlass reattempt @last charge", "one node"),
            (
                "windlass reattempt --filter status=Failed --filter since=1h",
                "many runs",
            ),
        ],
    ),
    (
        "fork",
        &[
            (
                "windlass fork @last --from charge",
                "a new run; earlier results are reused",
            ),
            (
                "windlass fork @last --from charge --set trigger.card=visa",
                "with another input",
            ),
            (
                "windlass fork @last --from charge --dry-run",
                "what would run again",
            ),
        ],
    ),
    (
        "signal",
        &[
            ("windlass signal @last approved", "without a payload"),
            (
                r#"windlass signal @last approved '{"by": "sales"}'"#,
                "with one",
            ),
            ("windlass signal @last approved @answer.json", "from a file"),
        ],
    ),
    (
        "set-result",
        &[
            (
                r#"windlass set-result @last charge '{"id": 7}'"#,
                "of a node",
            ),
            (
                "windlass set-result @last charge @result.json",
                "from a file",
            ),
            (
                "windlass set-result @last charge null --reason 'done by hand'",
                "with a reason",
            ),
        ],
    ),
    (
        "skip",
        &[
            ("windlass skip @last charge", "count it as succeeded"),
            ("windlass skip @last charge --dry-run", "what would follow"),
            (
                "windlass skip @last 'charge-all[17]/charge'",
                "inside a loop",
            ),
        ],
    ),
    (
        "compensate",
        &[
            (
                "windlass compensate @last --preview",
                "what would be undone, in order",
            ),
            ("windlass compensate @last", "undo it"),
            (
                "windlass compensate @last --retry charge",
                "again, where undoing failed",
            ),
        ],
    ),
    (
        "schedules",
        &[
            (
                "windlass schedules set nightly --workflow report --cron '0 2 * * *'",
                "every night",
            ),
            ("windlass schedules next nightly", "its next times"),
            ("windlass schedules pause nightly", "until it is resumed"),
        ],
    ),
    (
        "hooks",
        &[
            (
                "windlass hooks set orders --workflow order",
                "prints its path and secret",
            ),
            ("windlass hooks", "all of them"),
            ("windlass hooks remove orders", "its address stops to work"),
        ],
    ),
    (
        "secrets",
        &[
            ("windlass secrets set API", "asks for the value"),
            ("pass show api | windlass secrets set API", "from a pipe"),
            ("windlass secrets list", "names, never values"),
        ],
    ),
    (
        "token",
        &[
            ("windlass token", "with all scopes"),
            ("windlass token --tenant acme", "of a tenant"),
            (
                "windlass token --scope workflows:read",
                "that may only look",
            ),
        ],
    ),
    (
        "export",
        &[
            ("windlass export @last", "a run's graph"),
            ("windlass export @last > graph.json", "to edit it"),
            (
                "windlass export @last:order",
                "of the newest run of a workflow",
            ),
        ],
    ),
    (
        "import",
        &[
            (
                "windlass import @last graph.json --dry-run",
                "what it would change",
            ),
            (
                "windlass import @last graph.json",
                "replace the graph of a paused run",
            ),
            (
                "windlass import @last graph.json --reason 'new address'",
                "with a reason",
            ),
        ],
    ),
    (
        "verify",
        &[
            ("windlass verify @last", "a run's log and ancestry"),
            ("windlass verify @last --json", "for a program"),
            (
                "windlass verify @last:order",
                "the newest run of a workflow",
            ),
        ],
    ),
    (
        "rebuild",
        &[
            ("windlass rebuild", "of this data directory"),
            (
                "windlass rebuild --data-dir /var/lib/windlass",
                "of another",
            ),
            (
                "windlass rebuild --server http://127.0.0.1:7400",
                "of a server",
            ),
        ],
    ),
    (
        "backup",
        &[
            ("windlass backup copy.windlass", "one consistent file"),
            (
                "windlass backup copy.windlass --data-dir /var/lib/windlass",
                "of another directory",
            ),
            (
                "windlass backup copy.windlass --server http://127.0.0.1:7400",
                "of a server",
            ),
        ],
    ),
    (
        "restore",
        &[
            (
                "windlass --data-dir other restore copy.windlass",
                "into a new directory",
            ),
            ("windlass restore copy.windlass", "into ./.windlass"),
            ("windlass restore copy.windlass --json", "for a program"),
        ],
    ),
    (
        "dead-letters",
        &[
            (
                "windlass dead-letters",
                "runs that the engine could not carry on",
            ),
            ("windlass dead-letters requeue 01a1e13b", "try one again"),
            ("windlass dead-letters purge --all", "end them"),
        ],
    ),
    (
        "doctor",
        &[
            ("windlass doctor", "this installation"),
            (
                "windlass doctor --server http://127.0.0.1:7400",
                "a server, from outside",
            ),
            ("windlass doctor --json", "for a program"),
        ],
    ),
    (
        "config",
        &[
            ("windlass config", "every setting and where it comes from"),
            ("windlass config --json", "for a program"),
            ("windlass config --data-dir other", "with a flag"),
        ],
    ),
    (
        "completions",
        &[
            (
                "windlass completions bash > ~/.local/share/bash-completion/completions/windlass",
                "bash",
            ),
            ("windlass completions zsh > ~/.zfunc/_windlass", "zsh"),
            (
                "windlass completions fish > ~/.config/fish/completions/windlass.fish",
                "fish",
            ),
        ],
    ),
    (
        "blob",
        &[
            (
                "windlass blob @last sha256:2c26b46b… --out report.pdf",
                "into a file",
            ),
            (
                "windlass blob @last sha256:2c26b46b… > report.pdf",
                "from stdout",
            ),
            (
                "windlass blob @last:download sha256:2c26b46b… --out page.html",
                "of the newest run of a workflow",
            ),
        ],
    ),
    (
        "pools",
        &[
            (
                "windlass pools",
                "sizes, attempts that hold slots, attempts that wait",
            ),
            ("windlass pools set database 10", "make one, or resize it"),
            (
                "windlass pools remove database",
                "where no workflow names it",
            ),
        ],
    ),
    (
        "cluster",
        &[
            (
                "windlass cluster --server http://127.0.0.1:7400",
                "processes, partitions and queues",
            ),
            (
                "windlass cluster --server http://127.0.0.1:7400 --json",
                "for a program",
            ),
            (
                "windlass cluster --server http://127.0.0.1:7400 --token T",
                "where tokens are needed",
            ),
        ],
    ),
    (
        "query",
        &[
            (
                "windlass query 'select status, count(*) from workflow_executions group by 1'",
                "with WINDLASS_POSTGRES_URL set",
            ),
            (
                "windlass query 'select * from dead_letters' --postgres-url postgres://db/windlass",
                "with a URL",
            ),
            (
                "windlass query 'select * from step_executions limit 5' --json",
                "for a program",
            ),
        ],
    ),
    (
        "migrate",
        &[
            (
                "windlass migrate --from embedded --to postgres --postgres-url postgres://db/windlass",
                "from .windlass to a database",
            ),
            (
                "windlass migrate --from postgres --to embedded --postgres-url postgres://db/windlass",
                "and back",
            ),
            (
                "windlass migrate --from embedded --data-dir old --to postgres --postgres-url postgres://db/w",
                "from another directory",
            ),
        ],
    ),
    (
        "bench",
        &[
            ("windlass bench --quick", "in a minute"),
            ("windlass bench", "all of it"),
            (
                "windlass bench --backend postgres --postgres-url postgres://localhost/bench",
                "a cluster, against its database",
            ),
        ],
    ),
];
