"""What tests of several folders share: made-up motion, files of other makers, reference implementations."""
