//go:build race

package lockertest_test

const raceBuild = true
