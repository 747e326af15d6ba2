//! Running a command that may hang.

use std::{
    io::{ErrorKind, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use super::{ANSWER_LEN_MAX, Answer, Trouble};

/// How often a command is looked after.
const TICK: Duration = Duration::from_millis(5);

/// What `command` prints. One that has not ended after `timeout` is killed, and not waited for: a
/// driver may keep it for ever.
pub(super) fn run(command: &[&str], timeout: Duration) -> Answer {
    let mut builder = Command::new(command[0]);
    builder.args(&command[1..]).stdin(Stdio::null());
    let mut child = match builder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Trouble::Missing),
        Err(error) => return Err(Trouble::Failed(error.to_string())),
    };
    let deadline = Instant::now() + timeout;
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let is_success = ended(&mut child, deadline);
    let left = || deadline.saturating_duration_since(Instant::now()).max(TICK);
    let (stdout, stderr) = (stdout.recv_timeout(left()), stderr.recv_timeout(left()));
    let (Some(is_success), Ok(stdout), Ok(stderr)) = (is_success, stdout, stderr) else {
        _ = child.kill();
        return Err(Trouble::Hung);
    };
    if is_success { Ok(stdout) } else { Err(Trouble::Failed(stdout + &stderr)) }
}

/// Whether it succeeded; `None` where it has not ended in time.
fn ended(child: &mut Child, deadline: Instant) -> Option<bool> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < deadline => thread::sleep(TICK),
            Ok(None) => return None,
            Err(_) => return Some(false),
        }
    }
}

/// Reads a stream to its end, beside.
fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stream.map(|stream| stream.take(ANSWER_LEN_MAX).read_to_end(&mut bytes));
        // Who has given up waiting needs no answer; what was read before an error is one.
        _ = (read, sender.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_is_its_output_or_its_trouble() {
        assert_eq!(run(&["echo", "yes"], PATIENCE), Ok("yes\n".to_owned()));
        assert_eq!(run(&["/no/such/program"], PATIENCE), Err(Trouble::Missing));
        let failed = run(&["sh", "-c", "echo why >&2; exit 3"], PATIENCE);
        assert_eq!(failed, Err(Trouble::Failed("why\n".to_owned())));
    }

    #[test]
    fn a_command_that_hangs_is_given_up() {
        assert_eq!(run(&["sleep", "600"], TICK), Err(Trouble::Hung));
        // A program that it has started keeps its output open.
        assert_eq!(run(&["sh", "-c", "sleep 5 & exit 0"], TICK), Err(Trouble::Hung));
    }
}
