mod small {
    include!("../model/small.rs");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:?}", small::Small::new()?.compute(&[1.0, 2.0, 3.0, 4.0])?);
    Ok(())
}
