// Package exploresql explores code with a lock and an SQL database, as package
// explore does for code without one. The package is here because of the database driver.
package exploresql
