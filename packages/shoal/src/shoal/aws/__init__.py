"""What AWS is asked, and what it answered; decides nothing."""
