package guard
