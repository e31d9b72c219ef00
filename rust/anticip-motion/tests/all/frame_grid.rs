//! Frame numbers on the grid, and when the next frame is late.

use anticip_motion::{FRAME, FRAME_NS, FrameGrid, FrontOutput, GridPosition, Playout};

const MS: i64 = 1_000_000;

fn frame(seq: u64) -> FrontOutput {
    FrontOutput {
        seq,
        late_ns: 30 * MS,
        ..FrontOutput::default()
    }
}

fn first_of_stream(seq: u64) -> FrontOutput {
    FrontOutput {
        reset: true,
        ..frame(seq)
    }
}

fn late_at(seq: u64, late_ns: i64) -> FrontOutput {
    FrontOutput {
        late_ns,
        ..frame(seq)
    }
}

fn at_time(seq: u64, t_local_ns: i64) -> FrontOutput {
    FrontOutput {
        t_local_ns,
        ..frame(seq)
    }
}

fn slot(number: i64, since_completed_s: f64, dt: Option<f64>, release_ns: i64) -> GridPosition {
    GridPosition {
        number,
        since_completed_s,
        dt,
        release_ns,
    }
}

/// A grid that has taken this many frames in time; the stream's first frame has the number 7.
fn grid_with(frames: i64) -> FrameGrid {
    let mut grid = FrameGrid::new(0, None);
    for n in 0..frames {
        grid.take(&frame(7 + n as u64), n * FRAME_NS);
    }
    grid
}

#[test]
fn frames_are_counted_from_the_first_on() {
    let mut grid = FrameGrid::new(5, None);
    assert_eq!(
        (grid.due_ns, grid.newest(), grid.frames_since_completed()),
        (5 + FRAME_NS, -1, 0)
    );
    assert_eq!(grid.take(&frame(7), 1000), slot(0, FRAME, Some(FRAME), 1000));
    assert_eq!(grid.take(&frame(8), 2000), slot(1, FRAME, Some(FRAME), 2000));
    let three = 3.0 * FRAME;
    assert_eq!(grid.take(&frame(11), 3000), slot(4, three, Some(three), 3000));
    assert_eq!(grid.frames_since_completed(), 0);
}

#[test]
fn what_has_passed_without_a_datagram_counts_and_silence_is_not_heard() {
    let mut grid = grid_with(1);
    grid.skip(false);
    assert_eq!(grid.frames_since_completed(), 1);
    grid.skip(true);
    grid.skip(true);
    assert_eq!((grid.newest(), grid.frames_since_completed()), (3, 3));
    assert_eq!(
        grid.take(&frame(11), 0),
        slot(4, 4.0 * FRAME, Some(3.0 * FRAME), 0)
    );
}

/// Takes frame `n` after another frame left without it.
fn take_late(grid: &mut FrameGrid, n: i64, at_ms: i64) -> GridPosition {
    grid.skip(false);
    grid.take(&frame(7 + n as u64), at_ms * MS)
}

#[test]
fn a_frame_that_comes_after_its_turn_is_none_until_they_keep_coming_so() {
    let mut grid = grid_with(1);
    for _ in 0..9 {
        grid.skip(false);
    }
    assert!(grid.is_newest(&frame(16)));
    assert!(!grid.is_newest(&frame(15)));
    for n in 1..4 {
        let taken = take_late(&mut grid, n, n * 100);
        assert_eq!((taken.number, taken.dt), (n, None));
    }
    // After 300 ms the delay counts as longer.
    assert_eq!(take_late(&mut grid, 4, 400).dt, None);
    let longer = slot(15, 11.0 * FRAME, Some(FRAME), 401 * MS);
    assert_eq!(take_late(&mut grid, 5, 401), longer);
    assert_eq!(grid.take(&frame(13), 420 * MS).number, 16);
    // A frame in time restarts the count.
    let mut grid = grid_with(1);
    grid.skip(false);
    assert_eq!(take_late(&mut grid, 1, 40).dt, None);
    assert_eq!(grid.take(&frame(10), 60 * MS).dt, Some(FRAME));
    grid.skip(false);
    assert_eq!(take_late(&mut grid, 4, 400).dt, None);
}

#[test]
fn a_slow_source_is_not_behind_where_its_frames_are_guessed_before_they_come() {
    // A source frame every five grid frames, up to three frames later than the extrapolation.
    for late_at in 0..4 {
        let mut grid = grid_with(1);
        for n in 1..30_i64 {
            while grid.newest() < 5 * n + late_at {
                grid.skip(false);
            }
            assert_eq!(
                grid.take(&frame(7 + 5 * n as u64), n * 5 * FRAME_NS).number,
                5 * n
            );
        }
    }
}

#[test]
fn what_comes_at_once_after_a_standstill_has_no_longer_way() {
    let mut grid = grid_with(1);
    grid.skip(false);
    assert_eq!(take_late(&mut grid, 1, 40).dt, None, "late before it");
    for _ in 0..200 {
        grid.skip(false);
    }
    for n in 2..200 {
        // However long it takes to process them.
        assert_eq!(
            grid.take(&frame(7 + n as u64), (4000 + 10 * n) * MS).dt,
            None,
            "{n}"
        );
    }
}

#[test]
fn a_stream_that_begins_anew_goes_on_counting() {
    let mut grid = grid_with(3);
    assert_eq!(grid.take(&first_of_stream(3), 0), slot(3, FRAME, Some(FRAME), 0));
    assert_eq!(grid.take(&frame(4), 0).number, 4);
    assert_eq!(
        grid.take(&first_of_stream(30), 0).number,
        30,
        "numbers that are ahead stay"
    );
}

#[test]
fn the_next_frame_is_late_when_its_stream_says_so_within_reason() {
    for (told, due) in [(-5, 101), (130, 130), (900, 160)] {
        let mut grid = grid_with(1);
        grid.take(&late_at(8, told * MS), 100 * MS);
        assert_eq!(grid.due_ns, due * MS);
        // A frame behind its slot does not change the deadline.
        grid.skip(false);
        grid.take(&late_at(8, 150 * MS), 100 * MS);
        assert_eq!(grid.due_ns, due * MS);
    }
}

#[test]
fn a_buffer_holds_frames_back_and_the_next_is_due_a_frame_later() {
    let mut grid = FrameGrid::new(0, Some(Playout::new(Some(30.0))));
    assert_eq!(grid.take(&at_time(7, 100 * MS), 105 * MS).release_ns, 130 * MS);
    assert_eq!(grid.due_ns, 150 * MS);
    grid.skip(false);
    grid.skip(false);
    assert_eq!(
        grid.take(&at_time(8, 120 * MS), 125 * MS),
        slot(1, FRAME, None, 150 * MS)
    );
    assert_eq!(grid.due_ns, 190 * MS, "two have left already");
    let late = grid.take(&at_time(11, 180 * MS), 300 * MS);
    assert_eq!(late.release_ns, 300 * MS, "nothing leaves before it has come");
    assert_eq!(grid.due_ns, 301 * MS, "no turn is before now");
}

#[test]
fn what_a_frame_leaps_over_has_its_turn_while_the_buffer_holds() {
    let mut grid = FrameGrid::new(0, Some(Playout::new(Some(60.0))));
    assert!(
        grid.skipped_slots_ns(&at_time(7, 100 * MS), 105 * MS).is_empty(),
        "nothing is before the first"
    );
    grid.take(&at_time(7, 100 * MS), 105 * MS);
    assert!(grid.skipped_slots_ns(&at_time(8, 120 * MS), 125 * MS).is_empty());
    let three = at_time(11, 180 * MS);
    assert_eq!(
        grid.skipped_slots_ns(&three, 170 * MS),
        [180 * MS, 200 * MS, 220 * MS]
    );
    assert_eq!(
        grid.skipped_slots_ns(&three, 190 * MS),
        [200 * MS, 220 * MS],
        "what is past is past"
    );
    assert_eq!(
        grid.skipped_slots_ns(&three, 181 * MS),
        [180 * MS, 200 * MS, 220 * MS],
        "a slot that was missed by a millisecond is made up for"
    );
    let reset = FrontOutput {
        reset: true,
        ..three.clone()
    };
    assert!(grid.skipped_slots_ns(&reset, 170 * MS).is_empty());
    assert_eq!(grid.take(&three, 170 * MS).number, 4, "asking changes nothing");
    assert!(
        grid_with(1)
            .skipped_slots_ns(&at_time(11, 80 * MS), 70 * MS)
            .is_empty(),
        "without a buffer none waits"
    );
}

#[test]
fn an_automatic_buffer_is_quick_at_first_and_then_changes_too_slowly_to_be_heard() {
    let mut playout = Playout::new(None);
    assert_eq!(playout.release_ns(0, 7 * MS), 8 * MS, "a millisecond to spare");
    assert_eq!(
        playout.release_ns(20 * MS, 15 * MS),
        28 * MS,
        "what comes early says no more"
    );
    let longest = Playout::new(None).release_ns(0, 900 * MS);
    assert_eq!(longest, 101 * MS, "nobody waits for longer than 100 ms");
    for _ in 0..22 {
        playout.release_ns(0, 7 * MS);
    }
    // It is updated in the 25th frame and then every 25 frames.
    let delays = [vec![30; 26], vec![7; 25]].concat();
    let held: Vec<i64> = delays.iter().map(|ms| playout.release_ns(0, ms * MS)).collect();
    assert_eq!(held[0], 8_200_000);
    assert!(held.windows(2).all(|pair| pair[1] - pair[0] == 200_000));
    assert_eq!(Playout::new(Some(30.0)).buffer_ms(), 30.0);
}

#[test]
fn an_automatic_buffer_covers_most_of_the_delays() {
    // Longer delays are not covered, or every frame would wait for one datagram in a hundred.
    for (every, covered_ms) in [(10, 31.0), (30, 31.0), (100, 6.0)] {
        let mut playout = Playout::new(None);
        for n in 0..2000_i64 {
            let delay = if n % every == every - 1 { 30 } else { 5 };
            playout.release_ns(n * FRAME_NS, n * FRAME_NS + delay * MS);
        }
        assert!(
            (playout.buffer_ms() - covered_ms).abs() <= 0.3,
            "{}",
            playout.buffer_ms()
        );
    }
}

#[test]
fn no_time_is_too_late_or_too_early() {
    for playout in [None, Some(Playout::new(None)), Some(Playout::new(Some(100.0)))] {
        for (now_ns, local_ns) in [(i64::MAX, i64::MIN), (i64::MIN, i64::MAX), (i64::MAX, i64::MAX)] {
            let mut grid = FrameGrid::new(now_ns, playout.clone());
            for seq in [0, 9, 5, 10] {
                let _ = grid.skipped_slots_ns(&at_time(seq, local_ns), now_ns);
                grid.take(&at_time(seq, local_ns), now_ns);
            }
            grid.take(&at_time(11, local_ns), -1 - now_ns);
            assert!(grid.due_ns >= -1 - now_ns);
        }
    }
}
