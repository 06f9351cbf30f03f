"""What can be done. Only actions write rows and open transactions."""
