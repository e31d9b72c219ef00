//! A live frame allocates nothing once the stream runs.

#[path = "../../anticip-wire/tests/counting/mod.rs"]
mod counting;

use anticip_motion::{FrontConfig, LiveFront, Source, standard};
use anticip_wire::{Joint, PoseUpdate, Tracker, mocopi, vrchat};
use counting::allocations;

#[test]
fn a_mocopi_frame_is_fed_without_allocating() {
    let joints = standard::mocopi().len() as u16;
    let datagram = |number: u32| {
        let half = 0.3 * (f64::from(number) * 0.1).sin() as f32;
        let joint = |id| Joint::new(id, [half.cos(), half.sin(), 0.0, 0.0], [0.0; 3]);
        let pose = PoseUpdate {
            seq: Some(number),
            joints: (0..joints).map(joint).collect(),
            ..PoseUpdate::default()
        };
        let mut out = Vec::new();
        mocopi::encode_frame(&pose, 0, None, &mut out).expect("encodes");
        out
    };
    let config = FrontConfig {
        window: 64,
        steady: true,
        ..FrontConfig::default()
    };
    let mut front = LiveFront::new(Source::Mocopi, config).expect("options");
    // Every tenth packet is lost, so that filling a gap is covered too.
    let numbers = (0..1000u32).filter(|i| i % 10 != 3);
    let datagrams: Vec<(u32, Vec<u8>)> = numbers.map(|i| (i, datagram(i))).collect();
    let (warm, counted) = datagrams.split_at(300);
    let mut feed = |datagrams: &[(u32, Vec<u8>)]| {
        let mut rows = 0;
        for (i, datagram) in datagrams {
            rows += front
                .feed(datagram, i64::from(*i) * 20_000_000, "")
                .map_or(0, |o| o.rows.len());
        }
        rows
    };
    feed(warm);
    let mut rows = 0;
    assert_eq!(allocations(|| rows = feed(counted)), 0);
    assert!(rows > counted.len());
    // The packet that ends a second long gap in a row fills both.
    let gaps = [1000, 1024, 1048].map(|i| (i, datagram(i)));
    assert_eq!(allocations(|| rows = feed(&gaps)), 0);
    assert_eq!(rows, 49);
}

#[test]
fn a_body_of_trackers_is_completed_without_allocating() {
    // Hips, feet, thighs, chest.
    let places = [
        [0.0, 0.95],
        [0.1, 0.08],
        [-0.1, 0.08],
        [0.1, 0.6],
        [-0.1, 0.6],
        [0.0, 1.3],
    ];
    let datagram = |number: u32| {
        let half = 0.3 * (f64::from(number) * 0.1).sin() as f32;
        let tracker = |[x, y]: [f32; 2]| Tracker {
            rotation: Some([half.cos(), 0.0, half.sin(), 0.0]),
            position: Some([x, y, 0.1 * half]),
            ..Tracker::default()
        };
        let mut out = Vec::new();
        vrchat::encode_frame(&places.map(tracker), &mut out).expect("encodes");
        out
    };
    let source = Source::from_name("vrchat").expect("known");
    let mut front = LiveFront::new(source, FrontConfig::default()).expect("options");
    let datagrams: Vec<Vec<u8>> = (0..400).map(datagram).collect();
    let mut feed = |range: std::ops::Range<usize>| {
        let fed = range.map(|i| front.feed(&datagrams[i], i as i64 * 20_000_000, "").is_some());
        fed.filter(|&is_frame| is_frame).count()
    };
    feed(0..200);
    let mut frames = 0;
    assert_eq!(allocations(|| frames = feed(200..400)), 0);
    assert!(frames > 190, "{frames}");
}
