//! What is tried rather than asked: a connection to this machine, its clock, the settings of a
//! node.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use pangea::Config;

use super::check::Check;

/// How long a connection to this machine may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A clock that ticks more seldom than this cannot time what is measured here.
const COARSE: Duration = Duration::from_micros(1);

/// Tries them.
pub(crate) fn checks() -> Vec<Check> {
    vec![loopback(), clock(), config()]
}

/// Connects to itself at a free port.
fn loopback() -> Check {
    let name = "TCP to itself";
    match round_trip() {
        Ok((port, time)) => Check::ok(name, format!("port {port}, a byte and back in {time:.1?}")),
        Err(error) => Check::problem(
            name,
            error.to_string(),
            "let programs listen at 127.0.0.1: look at firewalls and at the sandbox",
        ),
    }
}

fn round_trip() -> io::Result<(u16, Duration)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let mut caller = TcpStream::connect_timeout(&address, PATIENCE)?;
    let (mut called, _) = listener.accept()?;
    for end in [&caller, &called] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(PATIENCE))?;
    }
    let start = Instant::now();
    let mut byte = [7];
    caller.write_all(&byte)?;
    called.read_exact(&mut byte)?;
    called.write_all(&byte)?;
    caller.read_exact(&mut byte)?;
    Ok((address.port(), start.elapsed()))
}

/// The shortest time that can be told from none.
fn clock() -> Check {
    let steps = (0..1000).map(|_| step());
    let finest = steps.min().unwrap_or_default();
    let found = format!("ticks every {finest:?} at least");
    if finest <= COARSE {
        return Check::ok("clock", found);
    }
    Check::warning("clock", found, "times below that mean nothing; choose a better clock source")
}

fn step() -> Duration {
    let start = Instant::now();
    loop {
        let step = start.elapsed();
        if !step.is_zero() {
            return step;
        }
    }
}

/// Reads what a node would read of the environment when it joins.
fn config() -> Check {
    let name = "heap and timeout";
    match Config::from_env() {
        Ok(config) => {
            let gib = config.heap_bytes as f64 / f64::from(1 << 30);
            let found = format!("a heap of at most {gib:.1} GiB; waits end after");
            Check::ok(name, format!("{found} {:?}", config.timeout))
        }
        Err(error) => Check::problem(name, error.to_string(), "see docs/running.md, Settings"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::State;

    #[test]
    fn this_machine_can_be_connected_to_and_has_a_clock() {
        let checks = checks();
        assert!(checks.iter().all(|check| check.state != State::Problem), "{checks:?}");
        assert!(step() > Duration::ZERO);
    }
}
