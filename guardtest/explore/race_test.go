//go:build race

package explore_test

const raceBuild = true
