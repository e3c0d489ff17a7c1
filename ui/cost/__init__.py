"""What an hour of the open job costs, without drawing: offers put to the job, ranked within one kind."""
