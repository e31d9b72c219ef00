"""What the commands of `pyanticip` that play, show and send do: one file each."""
