//! Nodes that are killed.

use std::{
    env, fs,
    io::Read,
    process::{self, Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::pangea::{Ended, command, model};

const PATIENCE: Duration = Duration::from_secs(60);

/// A job that generates as long and as slow a text as there can be.
fn generate(nodes: &str) -> Child {
    generate_in("/tmp", nodes)
}

/// Likewise, with its temporary files in `folder`.
fn generate_in(folder: &str, nodes: &str) -> Child {
    let model = model("austen-q8_0.gguf");
    let arguments = ["llm", "complete", &model, "-p", "It", "--max-tokens", "500", "--ignore-eos"];
    command(&[&arguments[..], &["--nodes", nodes]].concat())
        .env("PANGEA_KERNELS", "reference")
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The process of `node` of `job`.
fn node_process(job: &Child, node: &str) -> Option<libc::pid_t> {
    let parent = format!("PPid:\t{}\n", job.id());
    let variable = format!("PANGEA_NODE={node}\0");
    let is_node = |process: &libc::pid_t| {
        let read = |file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        let status = String::from_utf8_lossy(&read("status")).into_owned();
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        status.contains(&parent) && environment.contains(&variable)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_node)
}

fn signal(process: libc::pid_t, signal: i32) {
    // SAFETY: the process is of a job of this test that was not waited for; no memory is touched.
    unsafe { libc::kill(process, signal) };
}

/// Waits for `job`, which must end by itself.
fn ended(mut job: Child) -> Ended {
    let deadline = Instant::now() + PATIENCE;
    while job.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the job goes on");
        thread::yield_now();
    }
    job.wait_with_output().unwrap().into()
}

#[test]
fn a_node_killed_while_text_is_generated_is_named_and_ends_the_job() {
    for node in ["0", "1", "2"] {
        let mut job = generate("3");
        job.stdout.as_mut().unwrap().read_exact(&mut [0; 20]).unwrap();
        // The node that writes is held until the other is dead, so that it cannot be done before.
        let writer = node_process(&job, "0").expect("a node that runs");
        signal(writer, libc::SIGSTOP);
        signal(node_process(&job, node).expect("a node that runs"), libc::SIGKILL);
        signal(writer, libc::SIGCONT);
        let ended = ended(job);
        assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
        assert!(ended.stderr.contains(&format!("node {node} was lost")), "{ended:?}");
        assert!(ended.stderr.contains(&format!("node {node} failed")), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    }
}

#[test]
fn a_node_killed_while_it_starts_ends_the_job_and_leaves_nothing() {
    // Other tests have jobs at the same time, which make and remove their directories elsewhere.
    let folder = env::temp_dir().join(format!("starts-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    for round in 0..12 {
        let job = generate_in(folder, "3");
        let node = (round % 3).to_string();
        let deadline = Instant::now() + PATIENCE;
        let victim = loop {
            if let Some(process) = node_process(&job, &node) {
                break process;
            }
            assert!(Instant::now() < deadline, "the node starts");
        };
        // From at once to some way into joining and loading.
        (0..round * 2000).for_each(|_| std::hint::spin_loop());
        signal(victim, libc::SIGKILL);
        let ended = ended(job);
        assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    }
    assert_eq!(left_in(folder), [""; 0]);
    fs::remove_dir(folder).unwrap();
    assert_eq!(left_in("/dev/shm"), [""; 0]);
}

#[test]
fn nodes_end_with_their_launcher() {
    let mut job = generate("2");
    job.stdout.as_mut().unwrap().read_exact(&mut [0; 20]).unwrap();
    let nodes = ["0", "1"].map(|node| node_process(&job, node).unwrap());
    signal(job.id().try_into().unwrap(), libc::SIGKILL);
    job.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let is_running = |node: &libc::pid_t| {
        let stat = fs::read_to_string(format!("/proc/{node}/stat")).unwrap_or_default();
        // A zombie has ended, if nobody has asked how.
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while nodes.iter().any(is_running) {
        assert!(Instant::now() < deadline, "the nodes go on");
        thread::yield_now();
    }
}

/// What is in `folder` of ours.
fn left_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("pangea")).collect()
}
