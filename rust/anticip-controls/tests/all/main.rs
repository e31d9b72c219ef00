//! All integration tests in one program, which compiles and links faster than one each.

mod desk;
mod laws;
mod lead;

use anticip_controls::Silence;

const DT: f64 = 0.02;
const SILENCE: Silence = Silence {
    hold: 1.0,
    fade: 2.0,
    catch_up: 0.4,
};
