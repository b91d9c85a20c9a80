//! The files of `deploy/`: what they give the program is what it knows, their probes are routes
//! that it has, and the same topology as local processes runs a workflow and stops.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::deploy_files::{Variables, documents, folder, texts};
use serde_json::{Value, json};
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{Client, ECHO, World, windlass};

const ROLES: [&str; 4] = ["api", "orchestrator", "worker", "scheduler"];

/// The variable that the program reads apart from its settings.
const SEALING_KEY: &str = "WINDLASS_SEALING_KEY";

/// The program takes these variables for settings, each with this value.
#[track_caller]
fn is_known(variables: &Variables) {
    let world = World::new();
    let shown = windlass()
        .args(["config", "--json"])
        .current_dir(world.path())
        .envs(variables)
        .output()
        .expect("the binary runs");
    let told = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{told}");
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("settings");
    let settings = shown.as_object().expect("settings");
    for (name, value) in variables.iter().filter(|(name, _)| *name != SEALING_KEY) {
        let mut from_it = settings.values().filter(|it| it["from"] == name.as_str());
        let set = from_it
            .next()
            .unwrap_or_else(|| panic!("{name} is no setting"));
        // The database's address may hold a password, and is not shown.
        let is_so = set["value"] == value.as_str() || set["value"] == "(set)";
        assert!(is_so, "{name}: {value} became {set}");
    }
}

/// What `kind` and `name` name in a list of manifests.
#[track_caller]
fn manifest<'a>(manifests: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_meant = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
    let mut found = manifests.iter().filter(is_meant);
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no {kind} named {name}"));
    assert!(found.next().is_none(), "two {kind} named {name}");
    one
}

fn manifests() -> Vec<Value> {
    let mut files = vec!["settings".to_owned()];
    files.extend(ROLES.map(str::to_owned));
    let listed = fs::read_dir(folder().join("kubernetes")).expect("a folder");
    assert_eq!(listed.count(), files.len(), "a file is not checked here");
    let read = |file: &String| documents(&format!("kubernetes/{file}.yaml"));
    files.iter().flat_map(read).collect()
}

/// The variables of a container, those that it takes from elsewhere among them.
fn variables(manifests: &[Value], container: &Value) -> Variables {
    let mut variables = Variables::new();
    for from in container["envFrom"].as_array().into_iter().flatten() {
        let name = from["configMapRef"]["name"].as_str().expect("a name");
        variables.extend(texts(&manifest(manifests, "ConfigMap", name)["data"]));
    }
    for variable in container["env"].as_array().expect("variables") {
        let name = variable["name"].as_str().expect("a name").to_owned();
        let secret = &variable["valueFrom"]["secretKeyRef"];
        let value = match secret["name"].as_str() {
            Some(of) => &manifest(manifests, "Secret", of)["stringData"]
                [secret["key"].as_str().expect("a key")],
            None => &variable["value"],
        };
        let text = value.as_str();
        let text = text.unwrap_or_else(|| panic!("{name} is no text: {value}"));
        variables.insert(name, text.to_owned());
    }
    variables
}

/// How many processes there are with these roles.
type Topology = BTreeMap<Vec<String>, u64>;

fn add(topology: &mut Topology, roles: &str, count: u64) {
    let roles = roles.split(',').map(str::to_owned).collect();
    *topology.entry(roles).or_default() += count;
}

#[test]
fn kubernetes_gives_the_program_what_it_knows() {
    let manifests = manifests();
    for role in ROLES {
        let deployment = manifest(&manifests, "Deployment", &format!("windlass-{role}"));
        assert_eq!(deployment["apiVersion"], "apps/v1");
        let labels = json!({
            "app.kubernetes.io/name": "windlass",
            "app.kubernetes.io/component": role,
        });
        let spec = &deployment["spec"];
        assert!(spec["replicas"].as_u64() >= Some(2), "{role}");
        assert_eq!(spec["selector"]["matchLabels"], labels);
        assert_eq!(spec["template"]["metadata"]["labels"], labels);
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["enableServiceLinks"], false, "{role}");
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "windlass:latest");
        assert_eq!(container["args"], json!(["serve"]));
        let given = variables(&manifests, container);
        assert_eq!(given["WINDLASS_ROLE"], role);
        assert_eq!(given["WINDLASS_BACKEND"], "postgres");
        assert_eq!(given.contains_key("WINDLASS_AUTH_KEYS"), role == "api");
        is_known(&given);
        probes(container, &given);
        graceful(pod, container, &given);
        let budget = manifest(
            &manifests,
            "PodDisruptionBudget",
            &format!("windlass-{role}"),
        );
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
        assert_eq!(budget["spec"]["selector"]["matchLabels"], labels);
    }
    let service = manifest(&manifests, "Service", "windlass");
    assert_eq!(
        service["spec"]["selector"]["app.kubernetes.io/component"],
        "api"
    );
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "http");
}

/// The probes ask routes that every process has, where it listens for them.
#[track_caller]
fn probes(container: &Value, given: &Variables) {
    let ports = container["ports"].as_array().expect("ports");
    let port = |name: &str| {
        let mut named = ports.iter().filter(|port| port["name"] == name);
        named.next().map(|port| port["containerPort"].to_string())
    };
    let listens = |variable: &str| {
        let address = given.get(variable);
        address.and_then(|it| it.rsplit(':').next().map(str::to_owned))
    };
    assert_eq!(port("probes"), listens("WINDLASS_PROBE_LISTEN"));
    assert_eq!(port("http"), listens("WINDLASS_LISTEN"));
    for (probe, path) in [
        ("startupProbe", "/health/live"),
        ("livenessProbe", "/health/live"),
        ("readinessProbe", "/health/ready"),
    ] {
        let asked = json!({ "path": path, "port": "probes" });
        assert_eq!(container[probe]["httpGet"], asked, "{probe}");
    }
}

/// A process is killed only after the time that it has to finish.
#[track_caller]
fn graceful(pod: &Value, container: &Value, given: &Variables) {
    let seconds = |text: &str| text.trim_end_matches('s').parse::<u64>().expect("seconds");
    let grace = pod["terminationGracePeriodSeconds"]
        .as_u64()
        .expect("a time");
    let pause = &container["lifecycle"]["preStop"]["exec"]["command"];
    let pause = pause[1].as_str().map_or(0, seconds);
    let drain = seconds(&given["WINDLASS_DRAIN_TIMEOUT"]);
    assert!(
        grace > drain + pause,
        "{grace} s for {drain} s and {pause} s"
    );
}

#[test]
fn compose_gives_the_program_what_it_knows() {
    let file = documents("compose/compose.yaml").remove(0);
    let services = file["services"].as_object().expect("services");
    assert_eq!(
        services.keys().collect::<Vec<_>>(),
        ["postgres", "api", "orchestrator", "worker"]
    );
    let mut topology = Topology::new();
    for (name, service) in services {
        assert!(service["stop_grace_period"].is_string(), "{name}");
        assert!(service["healthcheck"]["test"].is_array(), "{name}");
        if name == "postgres" {
            continue;
        }
        assert_eq!(service["image"], "windlass");
        assert_eq!(service["command"], json!(["serve"]));
        let database = &service["depends_on"]["postgres"];
        assert_eq!(database["condition"], "service_healthy");
        let mut given = texts(&service["environment"]);
        for value in given.values_mut() {
            // What compose takes from `.env`, or refuses to start without.
            if let (Some(begin), Some(end)) = (value.find("${"), value.find('}')) {
                assert!(value[begin..end].contains(":?"), "{value}");
                value.replace_range(begin..=end, "secret");
            }
        }
        is_known(&given);
        let probe = &given["WINDLASS_PROBE_LISTEN"];
        let port = probe.rsplit(':').next();
        assert_eq!(service["healthcheck"]["test"][2].as_str(), port);
        let count = service["deploy"]["replicas"].as_u64().unwrap_or(1);
        add(&mut topology, &given["WINDLASS_ROLE"], count);
    }
    let roles: Vec<String> = topology.into_keys().flatten().collect();
    for role in ROLES {
        assert!(roles.iter().any(|it| it == role), "no process is {role}");
    }
}

#[test]
fn the_image_has_what_compose_asks_of_it() {
    let image = fs::read_to_string(folder().join("docker/Dockerfile")).expect("a file");
    assert!(image.contains("COPY deploy/docker/ready /usr/local/bin/windlass-ready"));
    let world = World::new();
    let server = world.serve();
    let port = server.address().rsplit(':').next().expect("a port");
    let ready = || {
        let mut command = Command::new(folder().join("docker/ready"));
        command.arg(port).stderr(Stdio::null());
        command.status().expect("bash runs").success()
    };
    assert!(ready());
    let port = port.to_owned();
    server.stop();
    let mut command = Command::new(folder().join("docker/ready"));
    let stopped = command.arg(port).stderr(Stdio::null()).status();
    assert!(!stopped.expect("bash runs").success());
}

/// The script, stopped if the test fails.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn the_same_topology_runs_as_local_processes() {
    let world = World::new();
    let mut command = Command::new(folder().join("local-cluster"));
    command
        .arg(world.path().join("cluster"))
        .env("WINDLASS", windlass().get_program())
        .env("WINDLASS_PORT_0", "0")
        .env("WINDLASS_POSTGRES_URL", database().fresh())
        .stdout(Stdio::piped());
    let mut script = Script(command.spawn().expect("sh runs"));
    let output = BufReader::new(script.0.stdout.take().expect("a pipe"));
    let mut lines = output.lines().map_while(Result::ok);
    let clients: Vec<Client> = (0..2)
        .map(|_| {
            let line = lines.next().expect("where the API listens");
            let address = line.strip_prefix("listening on http://");
            Client::new(address.unwrap_or_else(|| panic!("{line}")), None)
        })
        .collect();
    clients[0].publish(ECHO);
    let run = clients[1].execute("echo", &json!({ "trigger": { "say": "hello" } }));
    assert_eq!(clients[0].ended(&run)["status"], "Succeeded");
    let cluster = clients[0].get("/api/v1/cluster").expect(200).json();
    let mut started = Topology::new();
    for session in cluster["sessions"].as_array().expect("sessions") {
        let roles = session["roles"].as_array().expect("roles");
        let roles: Vec<&str> = roles.iter().filter_map(Value::as_str).collect();
        add(&mut started, &roles.join(","), 1);
    }
    let mut described = Topology::new();
    let manifests = manifests();
    for role in ROLES {
        let deployment = manifest(&manifests, "Deployment", &format!("windlass-{role}"));
        let replicas = deployment["spec"]["replicas"].as_u64();
        add(&mut described, role, replicas.expect("a number"));
    }
    assert_eq!(started, described);
    let id = script.0.id().to_string();
    let asked = Command::new("kill").args(["-TERM", &id]).status();
    assert!(asked.expect("kill runs").success());
    let ended = script.0.wait().expect("it ends");
    assert!(ended.success(), "each process ends with 0: {ended}");
    assert!(
        clients[0]
            .try_send("GET", "/health/live", &[], None)
            .is_err(),
        "no process is left"
    );
}

#[test]
fn the_local_cluster_asks_for_a_database() {
    let refused = Command::new(folder().join("local-cluster"))
        .env_remove("WINDLASS_POSTGRES_URL")
        .output()
        .expect("sh runs");
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("WINDLASS_POSTGRES_URL"), "{told}");
}
