use std::{collections::HashSet, sync::Barrier};

use super::*;

/// Runs `tasks` tasks and returns how often each was called.
fn calls(pool: &Pool, tasks: usize) -> Vec<usize> {
    let calls: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    pool.run(tasks, &|index| {
        calls[index].fetch_add(1, Ordering::Relaxed);
    });
    calls.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn each_task_is_called_once() {
    for threads in 0..=4 {
        let pool = Pool::new(threads);
        for tasks in [0, 1, 2, 3, 100] {
            assert_eq!(calls(&pool, tasks), vec![1; tasks], "{threads} threads");
        }
    }
}

#[test]
fn many_regions_in_a_row_each_see_their_own_tasks() {
    let pool = Pool::new(3);
    for region in 0..10_000 {
        let sum = AtomicUsize::new(0);
        pool.run(8, &|index| {
            sum.fetch_add(region + index, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 8 * region + 28);
    }
}

#[test]
fn the_tasks_of_a_region_run_on_all_threads() {
    let pool = Pool::new(3);
    let together = Barrier::new(3);
    let threads = Mutex::new(HashSet::new());
    pool.run(3, &|_| {
        threads.lock().unwrap().insert(std::thread::current().id());
        together.wait();
    });
    assert_eq!(threads.into_inner().unwrap().len(), 3);
}

#[test]
fn workers_that_sleep_wake_up() {
    let pool = Pool::new(2);
    let together = Barrier::new(2);
    for _ in 0..20 {
        pool.run(2, &|_| {
            together.wait();
        });
        // Longer than a worker's patience; were a wake-up lost, the next region would hang.
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_micros(300) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
    let pool = Pool::new(2);
    for guilty in [0, 5, 9] {
        let done = AtomicUsize::new(0);
        let run = AssertUnwindSafe(|| {
            pool.run(10, &|index| {
                assert!(index != guilty, "task {index} failed");
                done.fetch_add(1, Ordering::Relaxed);
            });
        });
        let payload = panic::catch_unwind(run).unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        assert_eq!(*message, format!("task {guilty} failed"));
        assert_eq!(done.into_inner(), 9);
        assert_eq!(calls(&pool, 10), [1; 10]);
    }
}

#[test]
fn payloads_that_panic_when_dropped_do_no_harm() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let pool = Pool::new(2);
    let run = AssertUnwindSafe(|| pool.run(10, &|_| panic::panic_any(Bomb)));
    std::mem::forget(panic::catch_unwind(run).unwrap_err());
    assert_eq!(calls(&pool, 10), [1; 10]);
}

#[test]
fn a_region_inside_a_task_is_done_by_its_thread() {
    let pool = Pool::new(2);
    let done = AtomicUsize::new(0);
    pool.run(4, &|_| {
        pool.run(4, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(done.into_inner(), 16);
}

#[test]
fn threads_that_share_a_pool_all_get_their_tasks_done() {
    let pool = Pool::new(2);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(calls(&pool, 20), [1; 20]);
                }
            });
        }
    });
}

#[test]
fn a_pool_that_is_never_used_ends() {
    drop(Pool::new(3));
}
