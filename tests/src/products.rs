//! Texts of products.

/// `l` by `r` of `m`, `n` and `k`, the contracted dimension first or last of each, in `batch` batches where that is not 0.
pub fn product((l, r, out): (&str, &str, &str), [batch, m, n, k]: [usize; 4], first: [bool; 2]) -> String {
    let (outer, dims) = if batch == 0 { (String::new(), 0) } else { (format!("{batch},"), 1) };
    let shape = |across: usize, first: bool| if first { format!("{k},{across}") } else { format!("{across},{k}") };
    let batches = if batch == 0 { "" } else { ", lhs_batch_dims={0}, rhs_batch_dims={0}" };
    let [lhs, rhs] = first.map(|first| dims + usize::from(!first));
    let (a, b) = (shape(m, first[0]), shape(n, first[1]));
    format!(
        "HloModule m\n\nENTRY e {{\n  a = {l}[{outer}{a}] parameter(0)\n  b = {r}[{outer}{b}] parameter(1)\n  \
         ROOT c = {out}[{outer}{m},{n}] dot(a, b), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}{batches}\n}}\n"
    )
}
