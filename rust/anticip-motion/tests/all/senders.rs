//! Selection of the active sender: several senders at one port.

use crate::common::{MS, Sender, front, rows};
use anticip_motion::{LiveFront, Source};

const ACTIVE: &str = "10.0.0.1:4000";
const OTHER: &str = "10.0.0.2:5000";

/// Feeds frames `range` of a sender at 60 a second with a clock that starts at `base`; returns the number of grid
/// frames.
fn play(front: &mut LiveFront, name: &str, base: f64, range: std::ops::Range<u32>) -> usize {
    let sender = Sender::new(Source::Mocopi);
    range
        .filter_map(|i| {
            let t = f64::from(i) / 60.0;
            let datagram = sender.frame(i, base + t);
            front
                .feed(&datagram, (t * 1e9) as i64, name)
                .map(|o| o.rows.len())
        })
        .sum()
}

#[test]
fn a_thousand_frames_of_somebody_else_change_nothing() {
    let sender = Sender::new(Source::Mocopi);
    let (mut alone, mut disturbed) = (front(Source::Mocopi), front(Source::Mocopi));
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 0..300u32 {
        let t = f64::from(i) / 60.0;
        let at = (t * 1e9) as i64;
        let datagram = sender.frame(i, t);
        a.extend(alone.feed(&datagram, at, ACTIVE).cloned());
        b.extend(disturbed.feed(&datagram, at, ACTIVE).cloned());
        for k in 0..4u32 {
            let name = format!("10.0.0.{}:{}", 2 + k, 7000 + i % 40);
            let stray = sender.frame(90_000 + 7 * i, 40.0 + t);
            assert!(disturbed.feed(&stray, at + MS, &name).is_none());
        }
    }
    assert!(rows(&a) == rows(&b));
    let (alone, disturbed) = (*alone.counters(), *disturbed.counters());
    assert_eq!((disturbed.ignored, alone.ignored), (1200, 0));
    assert_eq!(
        (disturbed.resets, disturbed.lost, disturbed.strange),
        (alone.resets, alone.lost, alone.strange)
    );
}

#[test]
fn who_comes_later_takes_over_when_the_player_is_gone() {
    let mut front = front(Source::Mocopi);
    assert!(play(&mut front, ACTIVE, 0.0, 0..120) > 90);
    // The active sender is silent from second 2 on; the other one starts a second later.
    assert_eq!(play(&mut front, OTHER, 500.0, 180..240), 0);
    let senders = front.senders();
    assert_eq!(
        (
            senders[0].name.as_str(),
            senders[0].is_active,
            senders[1].is_active
        ),
        (ACTIVE, true, false)
    );
    let resets = front.counters().resets;
    assert!(play(&mut front, OTHER, 500.0, 240..300) > 40);
    assert_eq!(front.senders()[0].name, OTHER);
    assert_eq!(front.counters().resets, resets + 1);
    // The first one comes back: it is not active any more.
    let mut both = 0;
    for i in 300..360 {
        both += play(&mut front, OTHER, 500.0, i..i + 1);
        assert_eq!(play(&mut front, ACTIVE, 0.0, i..i + 1), 0);
    }
    assert!(both > 45);
}

#[test]
fn the_numbers_of_the_rows_go_on_with_another_sender() {
    let mut front = front(Source::Mocopi);
    let sender = Sender::new(Source::Mocopi);
    let mut newest = None;
    for i in 0..600u32 {
        let name = if (200..300).contains(&i) { OTHER } else { ACTIVE };
        if i % 100 == 0 {
            front.listen_to(Some(name));
        }
        let datagram = sender.frame(i, f64::from(i) / 60.0);
        if let Some(out) = front.feed(&datagram, i64::from(i) * 1_000 * MS / 60, name) {
            let first = out.seq + 1 - out.rows.len() as u64;
            assert!(
                newest.is_none_or(|newest| first == newest + 1),
                "{first} in frame {i}"
            );
            newest = Some(out.seq);
        }
    }
}

#[test]
fn single_stray_frames_do_not_take_over_a_silent_player() {
    let mut front = front(Source::Mocopi);
    play(&mut front, ACTIVE, 0.0, 0..120);
    for i in (240..1200).step_by(60) {
        assert_eq!(play(&mut front, OTHER, 500.0, i..i + 1), 0);
    }
    assert_eq!(front.senders()[0].name, ACTIVE);
    assert!(play(&mut front, ACTIVE, 0.0, 1200..1260) > 45);
}

#[test]
fn the_player_can_be_chosen() {
    let mut front = front(Source::Mocopi);
    // Also a sender that was only tried.
    front.feed(b"no frame", 0, ACTIVE);
    assert!(!front.listen_to(Some("10.9.9.9")));
    assert_eq!(play(&mut front, ACTIVE, 0.0, 0..20), 0);
    assert!(front.extrapolate().is_none() && front.listen_to(None));
    play(&mut front, ACTIVE, 0.0, 20..60);
    play(&mut front, OTHER, 500.0, 30..60);
    assert!(!front.listen_to(Some("10.9.9.9")));
    assert_eq!(play(&mut front, ACTIVE, 0.0, 60..70), 0);
    assert!(front.listen_to(None));
    assert!(play(&mut front, ACTIVE, 0.0, 70..90) > 5);
    assert!(front.listen_to(Some("10.0.0.2")));
    assert_eq!(play(&mut front, ACTIVE, 0.0, 90..120), 0);
    assert!(play(&mut front, OTHER, 500.0, 90..120) > 20);
    // However long it is silent, no other sender is accepted.
    assert_eq!(play(&mut front, ACTIVE, 0.0, 300..600), 0);
    assert!(front.listen_to(None));
    assert!(play(&mut front, ACTIVE, 0.0, 600..660) > 40);
}

#[test]
fn the_ports_of_one_host_push_nobody_out() {
    let mut front = front(Source::Mocopi);
    for i in 0..60 {
        for port in 0..40 {
            play(&mut front, &format!("10.0.0.2:{port}"), 500.0, i..i + 1);
        }
        play(&mut front, ACTIVE, 0.0, i..i + 1);
    }
    let senders = front.senders();
    let suit = senders.iter().find(|s| s.name == ACTIVE);
    assert_eq!(suit.map(|s| (s.is_active, s.frames)), Some((false, 60)));
    assert_eq!(senders[0].name, "10.0.0.2:0");
    assert!(senders.len() <= 16);
    assert!(front.listen_to(Some("10.0.0.1")));
    assert!(play(&mut front, ACTIVE, 0.0, 60..90) > 20);
}

#[test]
fn all_ports_of_a_host_that_is_wanted_are_one_sender() {
    let (mut one, mut many) = (front(Source::Mocopi), front(Source::Mocopi));
    let (mut expected, mut played) = (0, 0);
    for (selector, frames) in [("10.0.0.1", 0..240), ("[10.0.0.1]", 240..480)] {
        one.listen_to(Some("10.0.0.1"));
        many.listen_to(Some(selector));
        for i in frames {
            expected += play(&mut one, ACTIVE, 0.0, i..i + 1);
            played += play(&mut many, &format!("10.0.0.1:{}", 4000 + i), 0.0, i..i + 1);
            // Another host is another sender.
            assert_eq!(play(&mut many, "10.0.0.10:4000", 500.0, i..i + 1), 0);
        }
    }
    assert!(expected > 390 && played == expected, "{expected} {played}");
    assert_eq!((many.counters().ignored, many.counters().lost), (480, 0));
    assert_eq!(many.senders()[0].name, ACTIVE);
    // Selected while one of its ports is active, it continues.
    let mut front = front(Source::Mocopi);
    play(&mut front, ACTIVE, 0.0, 0..60);
    play(&mut front, "10.0.0.1:4001", 0.0, 60..62);
    assert!(front.listen_to(Some("10.0.0.1")));
    assert!(play(&mut front, "10.0.0.1:4002", 0.0, 62..120) > 40);
    assert_eq!(front.counters().resets, 1);
}

#[test]
fn two_suits_at_a_host_that_is_wanted_are_not_mixed() {
    let mut front = front(Source::Mocopi);
    front.listen_to(Some("10.0.0.1"));
    play(&mut front, ACTIVE, 0.0, 0..60);
    let mut played = 0;
    for i in 60..180 {
        played += play(&mut front, ACTIVE, 0.0, i..i + 1);
        let second = play(&mut front, "10.0.0.1:4001", 500.0, i..i + 1);
        assert!(i < 66 || second == 0, "{i}");
    }
    assert!(played > 80, "{played}");
    // The other one is a sender of its own, which waits.
    assert!(front.counters().ignored > 110);
    assert!(
        play(&mut front, "10.0.0.1:4001", 500.0, 300..480) > 0,
        "the first was silent"
    );
}

#[test]
fn two_that_are_there_are_kept_rather_than_those_that_are_gone() {
    let mut front = front(Source::Mocopi);
    for host in 0..13 {
        play(&mut front, &format!("10.0.1.{host}:1"), 500.0, host..host + 1);
    }
    for i in 100..700 {
        if i < 300 {
            play(&mut front, ACTIVE, 0.0, i..i + 1);
        }
        for name in ["10.0.0.2:1", "10.0.0.2:2"] {
            play(&mut front, name, 500.0, i..i + 1);
        }
        if i == 200 {
            play(&mut front, "10.0.9.9:1", 900.0, i..i + 1);
        }
    }
    for name in ["10.0.0.2:1", "10.0.0.2:2"] {
        assert!(
            front.senders().iter().any(|s| s.name == name && s.frames > 300),
            "{name}"
        );
    }
}
