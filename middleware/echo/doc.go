package lockmw
