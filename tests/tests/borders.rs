//! Windows over arrays large enough that their borders are nests of their own: what the interpreter gives, the same bits at every
//! width and on any number of threads.

use brolga_tests::ways::check;

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as i64 % n
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }
}

/// A window along one dimension.
#[derive(Clone, Copy)]
struct Along {
    base: i64,
    size: i64,
    stride: i64,
    pad: [i64; 2],
    base_dilation: i64,
    dilation: i64,
}

impl Along {
    const NONE: Along = Along { base: 1, size: 1, stride: 1, pad: [0, 0], base_dilation: 1, dilation: 1 };

    /// A window of some steps over padding of either sign.
    fn some(numbers: &mut Numbers, base: i64) -> Along {
        let (size, dilation) = (numbers.between(1, 4), numbers.between(1, 2));
        let base_dilation = if numbers.below(5) == 0 { 2 } else { 1 };
        let reach = (size - 1) * dilation;
        let pad = [numbers.between(-2, reach), numbers.between(-2, reach)];
        Along { base, size, stride: numbers.between(1, 2), pad, base_dilation, dilation }
    }

    fn out(&self) -> i64 {
        let base = (self.base - 1) * self.base_dilation + 1 + self.pad[0] + self.pad[1];
        (base - (self.size - 1) * self.dilation - 1) / self.stride + 1
    }
}

/// The window's attribute: of every dimension, what `part` says.
fn list(all: &[Along], part: impl Fn(&Along) -> String) -> String {
    all.iter().map(part).collect::<Vec<_>>().join("x")
}

fn window(all: &[Along]) -> String {
    format!(
        "window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}}}",
        list(all, |w| w.size.to_string()),
        list(all, |w| w.stride.to_string()),
        list(all, |w| format!("{}_{}", w.pad[0], w.pad[1])),
        list(all, |w| w.base_dilation.to_string()),
        list(all, |w| w.dilation.to_string()),
    )
}

fn dims(all: &[Along], part: impl Fn(&Along) -> i64) -> String {
    all.iter().map(|w| part(w).to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn reductions_of_windows() {
    let mut cut = 0;
    for seed in 0..24 {
        let numbers = &mut Numbers(seed);
        let [rows, columns] = [numbers.between(160, 240), numbers.between(200, 320)];
        let mut all = vec![Along::some(numbers, rows), Along::some(numbers, columns)];
        // Dimensions that no window slides along, before, between or behind.
        all.insert(numbers.below(3) as usize, Along { base: numbers.between(1, 5), ..Along::NONE });
        let (op, init) = [("maximum", "-inf"), ("add", "0.5"), ("minimum", "inf")][numbers.below(3) as usize];
        let source = format!(
            "HloModule m\nf {{ x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] {op}(x, y) }}\nENTRY e {{\n  \
             x = f32[{}] parameter(0)\n  init = f32[] constant({init})\n  ROOT r = f32[{}] reduce-window(x, init), {}, to_apply=f\n}}\n",
            dims(&all, |w| w.base),
            dims(&all, Along::out),
            window(&all)
        );
        cut += usize::from(check(&source, 1e-5).kernel_text().matches("  phase").count() > 1);
    }
    assert!(cut >= 8, "the borders of {cut} are apart");
}

#[test]
fn convolutions_of_each_channel() {
    let mut cut = 0;
    for seed in 100..124 {
        let numbers = &mut Numbers(seed);
        let (batch, channels) = (numbers.between(1, 3), numbers.between(1, 24));
        let [rows, columns] = [numbers.between(40, 70), numbers.between(60, 100)];
        let along = [Along::some(numbers, rows), Along::some(numbers, columns)];
        let [spatial, out, kernel] = [dims(&along, |w| w.base), dims(&along, Along::out), dims(&along, |w| w.size)];
        let (x, result, labels) = if numbers.below(2) == 0 {
            (format!("{batch},{channels},{spatial}"), format!("{batch},{channels},{out}"), "bf01_01io->bf01")
        } else {
            (format!("{batch},{spatial},{channels}"), format!("{batch},{out},{channels}"), "b01f_01io->b01f")
        };
        let source = format!(
            "HloModule m\nENTRY e {{\n  x = f32[{x}] parameter(0)\n  w = f32[{kernel},1,{channels}] parameter(1)\n  \
             c = f32[{result}] convolution(x, w), {}, dim_labels={labels}, feature_group_count={channels}\n  \
             ROOT r = f32[{result}] tanh(c)\n}}\n",
            window(&along)
        );
        cut += usize::from(check(&source, 1e-5).kernel_text().matches("  phase").count() > 1);
    }
    assert!(cut >= 8, "the borders of {cut} are apart");
}
